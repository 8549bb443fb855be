// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "verify/campaign.hpp"

#include <trimtab/core/clock.hpp>
#include <trimtab/transport/mpi.hpp>
#include <trimtab/transport/transport.hpp>

namespace trimtab {

/// A campaign with this process as one rank of every case; the job decides how many ranks there are.
/// Collective over `root`. A rank that cannot go on ends the job: the others would wait for it.
/// @return the same report, or error, on every rank: `unavailable` when the options want another number of
/// ranks, and errors of draw_case.
[[nodiscard]] Result<verify::CampaignReport> run_process_campaign(verify::CampaignOptions& options,
                                                                  MpiSession& session, Transport& root);

/// The same where the processes have met by a bootstrap. A rank that cannot go on returns its error; the
/// others miss it in time.
[[nodiscard]] Result<verify::CampaignReport> run_process_campaign(verify::CampaignOptions& options,
                                                                  Transport& root);

}  // namespace trimtab
