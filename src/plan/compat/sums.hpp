// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

namespace trimtab {

/// Sum in the order in which torch's CPU kernel adds a contiguous row of float32: rounding, and so a plan,
/// depends on it.
[[nodiscard]] float sum_like_torch(std::span<const float> values);

/// Sum in the order of numpy's `sum` over a contiguous row of float32.
[[nodiscard]] float sum_like_numpy(std::span<const float> values);

}  // namespace trimtab
