// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/result.hpp>

#include "moe/service.hpp"

#include <cstdint>

namespace trimtab {

/// As many ranks as cores this process may use, 2 to 8.
[[nodiscard]] std::int32_t default_num_ranks();

/// Serves with ranks as threads of this process, each pinned to a core. `observer` may be null.
/// @return the first rank's error when any fails; the others then end too.
[[nodiscard]] Result<moe::ServiceReport> serve_inproc(const moe::ServiceOptions& service,
                                                      moe::ServiceObserver* observer);

}  // namespace trimtab
