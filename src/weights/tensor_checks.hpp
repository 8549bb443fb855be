// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/core/result.hpp>
#include <trimtab/weights/tensor_spec.hpp>

#include <fmt/format.h>

#include <cstddef>
#include <utility>

namespace trimtab {

/// "layer 17, tensor w2: …"
template <class... Args>
[[nodiscard]] tl::unexpected<Error> refuse(LayerId layer, const std::string& tensor,
                                           fmt::format_string<Args...> format, Args&&... args) {
  return failure(Errc::invalid_argument, fmt::format("layer {}, tensor {}: {}", layer.value(), tensor,
                                                     fmt::format(format, std::forward<Args>(args)...)));
}

/// Whether one tensor is sound by itself, in a store of `num_slots` slots.
[[nodiscard]] Status check_tensor(LayerId layer, const TensorSpec& tensor, std::size_t num_slots);

/// What one slot takes in storage, gaps and padding inside it included. Precondition: `check_tensor` passed.
[[nodiscard]] std::size_t slot_extent(const TensorSpec& tensor) noexcept;

}  // namespace trimtab
