// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/weights/safetensors.hpp>
#include <trimtab/weights/tensor_spec.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace trimtab {

/// Key of a bundle's checksum in `__metadata__`; its value has 16 hexadecimal digits.
[[nodiscard]] std::string checksum_key(LayerId layer, ExpertId expert);
[[nodiscard]] std::string checksum_text(std::uint64_t checksum);
/// Nothing for what is not 16 hexadecimal digits.
[[nodiscard]] std::optional<std::uint64_t> parse_checksum(std::string_view text);

/// Key and value of a layer's tensors in the order in which their checksums were taken.
[[nodiscard]] std::string bundle_key(LayerId layer);
[[nodiscard]] std::string bundle_text(std::span<const TensorSpec> tensors);

/// What a tensor of the store is written as.
[[nodiscard]] SafetensorsType stored_type(ElementType type) noexcept;
/// Whether bytes of `type` in a file are what the store means by `wanted`: `uint8` is any type of one byte
/// and below.
[[nodiscard]] bool is_stored_as(ElementType wanted, SafetensorsType type) noexcept;

}  // namespace trimtab
