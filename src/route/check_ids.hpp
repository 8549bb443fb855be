// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "route/id_rows.hpp"

#include <cstdint>

namespace trimtab {

/// Whether every id is -1 or in 0..num_experts-1.
[[nodiscard]] bool are_experts(const IdRows<std::int32_t>& rows, std::int32_t num_experts) noexcept;
[[nodiscard]] bool are_experts(const IdRows<std::int16_t>& rows, std::int32_t num_experts) noexcept;

}  // namespace trimtab
