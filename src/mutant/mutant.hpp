// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/clock.hpp>
#include <trimtab/core/placement.hpp>
#include <trimtab/core/result.hpp>
#include <trimtab/core/topology.hpp>
#include <trimtab/migrate/engine.hpp>
#include <trimtab/route/table_publisher.hpp>
#include <trimtab/transport/transport.hpp>
#include <trimtab/weights/expert_store.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

namespace trimtab {

/// A deliberately broken engine, or something broken around one. Every one must be caught by `trimtab
/// verify`: a check that lets it pass proves nothing about the sound one.
enum class Mutant : std::uint8_t {
  wrong_scale,           ///< Scales stay behind when weights move: whoever registers tensors leaves them out.
  table_before_weights,  ///< The next table serves from F on, two forwards before the slots change.
  overwrite_before_send,  ///< A bundle goes into its slot as soon as it is verified, while others still read
                          ///< it.
  skipped_wait,           ///< Slots change while a batch still holds the old table.
  stale_map,  ///< Counts are folded with the placement of another epoch: whoever folds takes the wrong one.
  neighbour_rewritten,    ///< The commit also writes a slot that the program does not name.
  vote_ignored,           ///< The coordinator takes a no for a yes.
  stale_program_resumed,  ///< A program that was rolled back goes on once something newer was committed.
  new_storage,  ///< Migrations write other storage than graphs have captured: whoever replaces a tensor
                ///< instead of copying into it.
};

inline constexpr Mutant all_mutants[]{Mutant::wrong_scale,
                                      Mutant::table_before_weights,
                                      Mutant::overwrite_before_send,
                                      Mutant::skipped_wait,
                                      Mutant::stale_map,
                                      Mutant::neighbour_rewritten,
                                      Mutant::vote_ignored,
                                      Mutant::stale_program_resumed,
                                      Mutant::new_storage};

/// "wrong-scale", "table-before-weights", …
[[nodiscard]] std::string_view to_string(Mutant mutant) noexcept;
[[nodiscard]] std::optional<Mutant> mutant_named(std::string_view name) noexcept;

/// What it does, in a few words for people.
[[nodiscard]] std::string_view describe(Mutant mutant) noexcept;

/// Engine::make, but broken as `mutant` says; a sound engine for none, and for those that are not the
/// engine's.
[[nodiscard]] Result<std::unique_ptr<Engine>> make_engine(std::optional<Mutant> mutant,
                                                          const EngineOptions& options,
                                                          std::unique_ptr<Transport> channel,
                                                          ExpertStore& store, TablePublisher& publisher,
                                                          Topology topology, Placement placement,
                                                          const Clock& clock);

}  // namespace trimtab
