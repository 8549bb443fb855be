// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "verify/layout_weights.hpp"
#include "verify/verify_options.hpp"

#include <trimtab/core/clock.hpp>
#include <trimtab/core/placement.hpp>
#include <trimtab/core/topology.hpp>
#include <trimtab/migrate/engine.hpp>
#include <trimtab/transport/liveness.hpp>
#include <trimtab/transport/transport.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trimtab::verify {

/// One thing that will go wrong.
struct CaseFault {
  FaultKind kind = FaultKind::drop;
  Rank rank;
  // Of messages:
  bool is_control = false;  ///< Else it strikes a payload.
  Side side = Side::send;
  std::optional<Rank> peer;
  std::uint64_t occurrence = 0;
  Errc code = Errc::peer_lost;
  // Of pauses, jumps and deaths:
  std::uint64_t tick = 0;    ///< When it begins, counted from the begin of the first program.
  Clock::duration length{};  ///< Also of a delay.
  /// Of deaths, instead of `tick`: with this change of state of the rank's engine, from 1.
  std::optional<std::uint64_t> transition = std::nullopt;
  /// Of cuts between halves: the ranks on the side of `rank`. Else only the link to `peer` is cut.
  std::vector<Rank> side_of_rank = {};
};

/// How the ranks are driven: what a scheduler, a model or a slow machine decides elsewhere.
struct Pace {
  Clock::duration tick{};            ///< Virtual time between two rounds over all ranks.
  Clock::duration budget{};          ///< Of each call of an engine.
  std::size_t skips_one_in = 0;      ///< A rank's turn is skipped this often; 0: never.
  std::size_t max_in_flight = 1;     ///< Batches of one rank that hold a table.
  std::int32_t max_batch_ticks = 0;  ///< A batch takes at least 0 to so many ticks.
  bool skips_forwards = false;       ///< Forward numbers sometimes jump.
};

/// All that is random about one trial: a pure function of the seed and the options.
struct Case {
  std::uint64_t seed = 0;
  Topology topology;
  std::vector<BundleShape> layers = {};
  Arrangement arrangement = Arrangement::dense;
  std::int32_t num_fused = 0;
  Placement first;
  std::vector<Placement> targets = {};  ///< One program each, in turn.
  EngineOptions engine = {};
  std::optional<std::size_t> stall_budget_bytes = std::nullopt;
  Pace pace = {};
  std::vector<CaseFault> faults = {};

  // Where ranks or links die:
  bool has_deaths = false;
  HeartbeatOptions heartbeat = {};
  bool has_source = false;  ///< Of experts whose last slot is gone. Else every expert begins on two ranks.

  [[nodiscard]] std::vector<std::size_t> bundle_bytes() const;
};

/// @return `infeasible` with the number that would do when the staging budget of the options holds no bundle
/// of the case beside its workspaces; errors of Topology::make for nodes beyond ranks.
[[nodiscard]] Result<Case> draw_case(std::uint64_t seed, const CaseOptions& options);

/// The case for a person, a few lines.
[[nodiscard]] std::string describe(const Case& drawn);
[[nodiscard]] std::string describe(const CaseFault& fault);

}  // namespace trimtab::verify
