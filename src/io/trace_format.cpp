// SPDX-License-Identifier: Apache-2.0
#include "io/trace_format.hpp"

#include "weights/safetensors_header.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace trimtab {
namespace {

constexpr std::size_t max_name_bytes = 60;

tl::unexpected<Error> bad(std::string message) { return failure(Errc::invalid_argument, std::move(message)); }

bool is_name_char(char c) noexcept {
  const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  return is_letter || (c >= '0' && c <= '9') || std::string_view("._+-").find(c) != std::string_view::npos;
}

/// Names end up in file names and tables.
Status check_name(const char* what, const std::string& name) {
  const bool is_short = !name.empty() && name.size() <= max_name_bytes;
  if (is_short && name.front() != '.' && std::ranges::all_of(name, is_name_char)) return {};
  return bad(fmt::format("{} {} is not 1 to {} letters, digits and ._+- that begin with no point", what,
                         shown(name), max_name_bytes));
}

Status check_in_range(const char* what, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (low <= value && value <= high) return {};
  return bad(fmt::format("{} {} is not in {}..{}", what, value, low, high));
}

Status check_rows(const TraceInfo& info) {
  if (info.layers.empty()) return bad("no layer has experts");
  for (std::size_t i = 0; i < info.layers.size(); ++i) {
    const std::int32_t layer = info.layers[i].value();
    if (layer < 0 || layer >= info.num_layers) {
      return bad(fmt::format("row {}: layer {} is not in 0..{}", i, layer, info.num_layers - 1));
    }
    if (i > 0 && info.layers[i] <= info.layers[i - 1]) {
      return bad(fmt::format("row {}: layer {} is not above {}, that of row {}", i, layer,
                             info.layers[i - 1].value(), i - 1));
    }
  }
  return {};
}

}  // namespace

std::string_view to_string(TracePhase phase) noexcept {
  return phase == TracePhase::prefill ? "prefill" : "decode";
}

SafetensorsType trace_id_type(std::int32_t num_experts) noexcept {
  return num_experts <= 256 ? SafetensorsType::u8 : SafetensorsType::u16;
}

Status check_trace_info(const TraceInfo& info) {
  if (Status s = check_name("model", info.model); !s) return s;
  if (Status s = check_name("domain", info.domain); !s) return s;
  if (Status s = check_in_range("experts", info.num_experts, 1, max_trace_experts); !s) return s;
  const std::int64_t most_layers = max_trace_loads / info.num_experts;
  if (Status s = check_in_range("layers", info.num_layers, 1, most_layers); !s) return s;
  if (Status s = check_in_range("top_k", info.top_k, 1, info.num_experts); !s) return s;
  if (Status s = check_in_range("groups", info.num_groups, 1, info.num_experts); !s) return s;
  if (info.num_experts % info.num_groups != 0) {
    return bad(fmt::format("{} groups do not divide {} experts", info.num_groups, info.num_experts));
  }
  return check_rows(info);
}

SafetensorsMetadata trace_metadata(const TraceInfo& info) {
  return {{"format", std::string(trace_format_name)},
          {"model", info.model},
          {"domain", info.domain},
          {"experts", fmt::format("{}", info.num_experts)},
          {"groups", fmt::format("{}", info.num_groups)},
          {"layers", fmt::format("{}", info.num_layers)}};
}

ChoiceCheck::ChoiceCheck(const TraceInfo& info)
    : info_(info), seen_in_(static_cast<std::size_t>(info.num_experts)) {}

std::string ChoiceCheck::row_problem(LayerId layer, const ExpertId* row) {
  ++num_rows_;
  for (std::int32_t k = 0; k < info_.top_k; ++k) {
    const ExpertId expert = row[k];
    if (expert.value() < 0 || expert.value() >= info_.num_experts) {
      return fmt::format("layer {}: expert {} is not in 0..{}", layer.value(), expert.value(),
                         info_.num_experts - 1);
    }
    if (std::exchange(seen_in_[expert.index()], num_rows_) == num_rows_) {
      return fmt::format("layer {}: expert {} is chosen twice", layer.value(), expert.value());
    }
  }
  return {};
}

std::string ChoiceCheck::problem_of(const ExpertId* choice) {
  for (LayerId layer : info_.layers) {
    if (std::string problem = row_problem(layer, choice); !problem.empty()) return problem;
    choice += info_.top_k;
  }
  return {};
}

}  // namespace trimtab
