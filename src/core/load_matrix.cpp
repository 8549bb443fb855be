// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/load_matrix.hpp>

#include <fmt/format.h>

#include <cmath>

namespace trimtab {
namespace {

Result<double> checked_total(std::span<const double> row, std::size_t layer) {
  double total = 0.0;
  for (std::size_t e = 0; e < row.size(); ++e) {
    if (!std::isfinite(row[e]) || row[e] < 0.0) {
      return failure(
          Errc::invalid_argument,
          fmt::format("layer {}, expert {}: load {} is not a finite number >= 0", layer, e, row[e]));
    }
    total += row[e];
  }
  if (!std::isfinite(total)) {
    return failure(Errc::invalid_argument,
                   fmt::format("layer {}: the sum of the loads is {}, not a finite number", layer, total));
  }
  return total;
}

}  // namespace

Result<LoadMatrix> LoadMatrix::make(std::int32_t num_layers, std::int32_t num_experts,
                                    std::vector<double> loads) {
  if (num_layers < 1 || num_experts < 1) {
    return failure(Errc::invalid_argument,
                   fmt::format("{} layers x {} experts: both must be at least 1", num_layers, num_experts));
  }
  const auto width = static_cast<std::size_t>(num_experts);
  const auto height = static_cast<std::size_t>(num_layers);
  if (loads.size() != width * height) {
    return failure(Errc::invalid_argument,
                   fmt::format("{} loads for {} layers x {} experts", loads.size(), num_layers, num_experts));
  }
  std::vector<double> totals(height);
  for (std::size_t layer = 0; layer < height; ++layer) {
    Result<double> total = checked_total(std::span(loads).subspan(layer * width, width), layer);
    if (!total) return failure(std::move(total));
    totals[layer] = *total;
  }
  return LoadMatrix(num_layers, num_experts, std::move(loads), std::move(totals));
}

LoadMatrix::LoadMatrix(std::int32_t num_layers, std::int32_t num_experts, std::vector<double> loads,
                       std::vector<double> totals)
    : num_layers_(num_layers),
      num_experts_(num_experts),
      loads_(std::move(loads)),
      totals_(std::move(totals)) {}

std::span<const double> LoadMatrix::layer(LayerId layer) const noexcept {
  const auto width = static_cast<std::size_t>(num_experts_);
  return std::span(loads_).subspan(layer.index() * width, width);
}

}  // namespace trimtab
