// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/clock.hpp>
#include <trimtab/core/result.hpp>

#include "moe/transfer_faults.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trimtab {

/// What may befall a rank, besides its transfers.
enum class RankFaultKind : std::uint8_t { kill, stop, cut };

[[nodiscard]] std::string_view to_string(RankFaultKind kind) noexcept;

struct NamedRankFault {
  RankFaultKind kind{};
  Rank rank;
};

/// What --inject-fault asks for by "kill:RANK", "stop:RANK" or "cut:RANK", or nothing.
/// @return `invalid_argument` naming the text, when it is no rank or there are two.
[[nodiscard]] Result<std::optional<NamedRankFault>> parse_rank_fault(std::span<const std::string> specs);

/// Reads what else --inject-fault was given: "corrupt:N", "drop:N", "delay:N" or "delay:N:MS" each. A delay
/// without a time lasts half of `deadline`.
/// @return `invalid_argument` naming the text and what is wrong with it.
[[nodiscard]] Result<std::vector<moe::TransferFault>> parse_faults(std::span<const std::string> specs,
                                                                   Clock::duration deadline);

}  // namespace trimtab
