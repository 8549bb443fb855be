// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/clock.hpp>
#include <trimtab/core/ids.hpp>
#include <trimtab/core/result.hpp>
#include <trimtab/migrate/engine.hpp>
#include <trimtab/transport/collectives.hpp>
#include <trimtab/transport/transport.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trimtab::moe {

/// A step that was taken back.
struct Rollback {
  Epoch epoch;            ///< That stayed in service.
  Errc code = Errc::ok;   ///< Never `ok`.
  std::string why;        ///< In one line.
  bool is_cause = false;  ///< This rank itself said no; the others were told.
};

/// Memory that migrations take on a rank, beside the weights.
struct MigrationBuffers {
  std::size_t staging_budget_bytes = 0;
  std::size_t staging_peak_bytes = 0;
  std::size_t workspace_bytes = 0;         ///< Of layouts without addressable slots.
  std::size_t transport_buffer_bytes = 0;  ///< That the back-end holds for the migration channel.
};

/// How the engine of a rank is, for people.
struct EngineCondition {
  StepState state = StepState::idle;
  std::uint64_t epoch = 0;
  std::optional<Clock::duration> last_commit_age;
  std::uint64_t failures = 0;
  std::string last_failure;  ///< Empty when there was none.
};

/// What migrations did and took: on one rank, or after `reduce` over all of them.
struct MigrationReport {
  std::vector<Rollback> rollbacks;  ///< In order.
  std::vector<bool> struck;         ///< By fault that was asked for.
  MigrationBuffers buffers;         ///< Over all ranks: the largest.
  EngineCondition engine;           ///< This rank's.
};

/// Makes `report` that of all ranks: each rollback as the rank tells it that caused it. Collective.
[[nodiscard]] Status reduce(MigrationReport& report, Transport& root, const Clock& clock,
                            const CollectiveOptions& options);

}  // namespace trimtab::moe
