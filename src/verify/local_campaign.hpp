// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "verify/campaign.hpp"

namespace trimtab::verify {

/// Plays all cases with processes of this machine that are forked for each, over ucx; up to `jobs` cases at
/// the same time. Deaths are those of real processes: SIGKILL, SIGSTOP and SIGCONT, and links that lose
/// everything. A case that takes too long is ended, and a violation. Leaves no process behind, whatever ends
/// this one. Precondition: this process has one thread.
/// @return errors of draw_case, and `unavailable` with what a rank says that cannot begin.
[[nodiscard]] Result<CampaignReport> run_local_campaign(const CampaignOptions& options, int jobs);

}  // namespace trimtab::verify
