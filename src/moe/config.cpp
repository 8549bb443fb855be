// SPDX-License-Identifier: Apache-2.0
#include "moe/config.hpp"

#include <fmt/format.h>

#include <string_view>

namespace trimtab::moe {
namespace {

Status check_range(std::string_view field, std::int32_t value, std::int32_t low, std::int32_t high) {
  if (value >= low && value <= high) return {};
  return failure(Errc::invalid_argument, fmt::format("{} {} is not in {}..{}", field, value, low, high));
}

Status check_groups(const ModelConfig& config) {
  if (Status s = check_range("groups", config.num_groups, 1, config.num_experts); !s) return s;
  if (Status s = check_range("top-groups", config.top_groups, 1, config.num_groups); !s) return s;
  if (config.num_experts % config.num_groups != 0) {
    return failure(Errc::invalid_argument,
                   fmt::format("{} groups do not divide {} experts", config.num_groups, config.num_experts));
  }
  const std::int32_t eligible = config.num_experts / config.num_groups * config.top_groups;
  if (config.top_k <= eligible) return {};
  return failure(Errc::invalid_argument, fmt::format("top-k {} > {} experts in {} of {} groups", config.top_k,
                                                     eligible, config.top_groups, config.num_groups));
}

}  // namespace

Status check_config(const ModelConfig& config) {
  constexpr std::int32_t many = 1 << 16;
  if (Status s = check_range("layers", config.num_layers, 1, many); !s) return s;
  if (Status s = check_range("experts", config.num_experts, 1, many); !s) return s;
  if (Status s = check_range("top-k", config.top_k, 1, config.num_experts); !s) return s;
  if (Status s = check_range("hidden", config.hidden, 1, max_width); !s) return s;
  if (Status s = check_range("intermediate", config.intermediate, 1, max_width); !s) return s;
  return check_groups(config);
}

}  // namespace trimtab::moe
