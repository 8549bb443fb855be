// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "migrate/stage_run.hpp"
#include "migrate/staging.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace trimtab {

/// The run of the step in hand with its piece of staging, and those of steps given up: their receives may
/// still land, so their staging is quarantined, and counted, until the transport says that it is over (M8).
/// Not thread-safe. Before this object goes, the channel of its runs must be closed.
class StagedRuns {
 public:
  explicit StagedRuns(std::size_t budget_bytes) : arena_(budget_bytes) {}

  /// Room for the run to come, or nothing.
  [[nodiscard]] std::optional<std::span<std::byte>> reserve(std::size_t size) {
    return arena_.allocate(size);
  }
  /// Takes the run that works on `block`, which `reserve` returned. Precondition: none is in hand.
  void hold(std::unique_ptr<StageRun> run, std::span<std::byte> block);
  /// Precondition: one is in hand.
  [[nodiscard]] StageRun& run() noexcept { return *current_.run; }

  /// Gives up the run in hand, if any.
  void drop();
  /// Frees what no transfer can touch any more.
  void release_quiet();

  /// Lends up to `most` bytes of staging to `use` for the call; none when there is no room.
  template <class Use>
  void use_idle(std::size_t most, const Use& use) {
    const auto block = arena_.allocate(std::min(most, arena_.budget_bytes()));
    if (!block) return;
    use(*block);
    arena_.release(*block);
  }

  [[nodiscard]] const StagingArena& arena() const noexcept { return arena_; }

 private:
  struct Held {
    std::unique_ptr<StageRun> run;
    std::span<std::byte> block;
  };

  StagingArena arena_;
  Held current_;
  std::vector<Held> quarantine_;
};

}  // namespace trimtab
