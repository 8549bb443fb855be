// SPDX-License-Identifier: Apache-2.0
#include "verify/known_source.hpp"

#include "verify/expert_values.hpp"

#include <fmt/format.h>

namespace trimtab::verify {

bool KnownSource::holds(LayerId layer, ExpertId expert) const {
  return layer.index() < drawn_.layers.size() &&
         expert.index() < static_cast<std::size_t>(drawn_.first.num_experts());
}

Status KnownSource::read_bundle(LayerId layer, ExpertId expert, std::span<std::byte> bundle) {
  if (!holds(layer, expert)) {
    return failure(Errc::not_found,
                   fmt::format("layer {}, expert {}: not in the case", layer.value(), expert.value()));
  }
  const BundleShape& shape = drawn_.layers[layer.index()];
  for (std::size_t tensor = 0; tensor < shape.size(); ++tensor) {
    const std::size_t size = shape[tensor].size_bytes();
    if (bundle.size() < size)
      return failure(Errc::invalid_argument, fmt::format("layer {}: the bundle is larger", layer.value()));
    fill_expert(layer, expert, tensor, bundle.first(size));
    bundle = bundle.subspan(size);
  }
  return {};
}

}  // namespace trimtab::verify
