// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/clock.hpp>
#include <trimtab/core/result.hpp>

#include "moe/transfer_faults.hpp"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace trimtab {

/// Whose death --inject-fault asks for by "kill:RANK", or nobody's.
/// @return `invalid_argument` naming the text, when it is no rank or there are two.
[[nodiscard]] Result<std::optional<Rank>> parse_kill(std::span<const std::string> specs);

/// Reads what else --inject-fault was given: "corrupt:N", "drop:N", "delay:N" or "delay:N:MS" each. A delay
/// without a time lasts half of `deadline`.
/// @return `invalid_argument` naming the text and what is wrong with it.
[[nodiscard]] Result<std::vector<moe::TransferFault>> parse_faults(std::span<const std::string> specs,
                                                                   Clock::duration deadline);

}  // namespace trimtab
