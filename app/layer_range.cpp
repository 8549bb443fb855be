// SPDX-License-Identifier: Apache-2.0
#include "app/layer_range.hpp"

#include "app/commands.hpp"

#include <trimtab/core/assert.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

namespace trimtab {
namespace {

std::optional<LayerRange> parse_range(const std::string& text) {
  LayerRange range{};
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, range.first);
  if (first.ec != std::errc{} || first.ptr == end || *first.ptr != ':') return std::nullopt;
  const auto last = std::from_chars(first.ptr + 1, end, range.last);
  if (last.ec != std::errc{} || last.ptr != end) return std::nullopt;
  return range;
}

}  // namespace

LayerRange checked_range(const std::string& text, std::int32_t num_layers) {
  const std::optional<LayerRange> range = parse_range(text);
  if (!range) usage_error("--layers", fmt::format("'{}' is not A:B, as in 3:61", text));
  if (range->first < 0 || range->first >= range->last || range->last > num_layers) {
    usage_error("--layers",
                fmt::format("{} is not a range within 0:{}, the layers of the file", text, num_layers));
  }
  return *range;
}

LoadMatrix only_layers(const LoadMatrix& loads, LayerRange range) {
  std::vector<double> kept;
  for (LayerId layer : ids<LayerId>(loads.num_layers())) {
    const auto row = loads.layer(layer);
    const bool is_inside = range.first <= layer.value() && layer.value() < range.last;
    kept.insert(kept.end(), row.begin(), row.end());
    if (!is_inside) std::fill(kept.end() - std::ssize(row), kept.end(), 0.0);
  }
  Result<LoadMatrix> made = LoadMatrix::make(loads.num_layers(), loads.num_experts(), std::move(kept));
  TRIMTAB_ASSERT(made.has_value());
  return *std::move(made);
}

}  // namespace trimtab
