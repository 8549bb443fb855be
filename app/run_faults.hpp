// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/clock.hpp>
#include <trimtab/core/result.hpp>

#include "moe/transfer_faults.hpp"

#include <span>
#include <string>
#include <vector>

namespace trimtab {

/// Reads what --inject-fault was given: "corrupt:N", "drop:N", "delay:N" or "delay:N:MS" each. A delay
/// without a time lasts half of `deadline`.
/// @return `invalid_argument` naming the text and what is wrong with it.
[[nodiscard]] Result<std::vector<moe::TransferFault>> parse_faults(std::span<const std::string> specs,
                                                                   Clock::duration deadline);

}  // namespace trimtab
