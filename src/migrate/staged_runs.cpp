// SPDX-License-Identifier: Apache-2.0
#include "migrate/staged_runs.hpp"

#include <trimtab/core/assert.hpp>

#include <utility>

namespace trimtab {

void StagedRuns::hold(std::unique_ptr<StageRun> run, std::span<std::byte> block) {
  TRIMTAB_ASSERT(!current_.run);
  current_ = {std::move(run), block};
}

void StagedRuns::drop() {
  if (!current_.run) return;
  current_.run->cancel();
  quarantine_.push_back(std::exchange(current_, {}));
  release_quiet();
}

void StagedRuns::release_quiet() {
  std::erase_if(quarantine_, [&](Held& held) {
    if (!held.run->is_quiet()) return false;
    arena_.release(held.block);
    return true;
  });
}

}  // namespace trimtab
