// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace trimtab {

/// The model a count or a routing table belongs to. A draft model has layers, experts and slots of its own.
enum class ModelRole : std::uint8_t { target, draft };

[[nodiscard]] constexpr std::string_view to_string(ModelRole model) noexcept {
  return model == ModelRole::target ? "target" : "draft";
}

}  // namespace trimtab
