// SPDX-License-Identifier: Apache-2.0
#include "moe/text/config.hpp"

#include <fmt/format.h>

#include <charconv>
#include <string>
#include <string_view>

namespace trimtab::moe {
namespace {

constexpr std::string_view format_name = "trimtab.model/1";
/// RMS norms of this runtime have no other.
constexpr double norm_epsilon = 1e-6;

/// Reads one value after the other; the first that is wrong is kept.
class Fields {
 public:
  explicit Fields(const SafetensorsMetadata& metadata) : metadata_(metadata) {}

  [[nodiscard]] const Status& status() const noexcept { return status_; }

  void text(std::string_view key, std::string_view wanted) {
    const std::string* value = find(key);
    if (value != nullptr && *value != wanted)
      refuse(fmt::format("{} is \"{}\", not \"{}\"", key, *value, wanted));
  }

  void number(std::string_view key, std::int32_t low, std::int32_t high, std::int32_t& out) {
    const std::string* value = find(key);
    if (value == nullptr) return;
    if (!parse(*value, out) || out < low || out > high)
      refuse(fmt::format("{} {} is not in {}..{}", key, *value, low, high));
  }

  void real(std::string_view key, double low, double high, double& out) {
    const std::string* value = find(key);
    if (value == nullptr) return;
    if (!parse(*value, out) || !(out >= low && out <= high))
      refuse(fmt::format("{} {} is not in {}..{}", key, *value, low, high));
  }

  void refuse(std::string why) {
    if (status_) status_ = failure(Errc::invalid_argument, std::move(why));
  }

 private:
  const std::string* find(std::string_view key) {
    const auto found = metadata_.find(key);
    if (found != metadata_.end()) return &found->second;
    refuse(fmt::format("the metadata lacks \"{}\"", key));
    return nullptr;
  }

  template <class Number>
  static bool parse(const std::string& text, Number& out) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    return error == std::errc{} && end == text.data() + text.size();
  }

  const SafetensorsMetadata& metadata_;
  Status status_;
};

void read_experts(Fields& fields, std::int32_t layers, std::int32_t dense, ModelConfig& experts) {
  constexpr std::int32_t many = 1 << 16;
  fields.number("width", 1, max_width, experts.hidden);
  fields.number("expert_inner", 1, max_width, experts.intermediate);
  fields.number("experts", 1, many, experts.num_experts);
  fields.number("top_k", 1, many, experts.top_k);
  fields.number("groups", 1, many, experts.num_groups);
  fields.number("top_groups", 1, many, experts.top_groups);
  experts.num_layers = layers - dense;
}

}  // namespace

Result<TextConfig> read_text_config(const SafetensorsMetadata& metadata) {
  constexpr std::int32_t many = 1 << 16;
  TextConfig config;
  Fields fields(metadata);
  std::int32_t layers = 0;
  double epsilon = norm_epsilon;
  fields.text("format", format_name);
  fields.text("weights", "w8a8");
  fields.number("vocabulary", 256, 256, config.vocabulary);
  fields.number("layers", 1, many, layers);
  fields.number("dense_layers", 0, layers - 1, config.dense_layers);
  fields.number("heads", 1, many, config.heads);
  fields.number("context", 2, many, config.context);
  fields.number("dense_inner", 1, max_width, config.dense_inner);
  fields.number("shared_inner", 1, max_width, config.shared_inner);
  fields.real("rope_base", 1.0, 1e12, config.rope_base);
  fields.real("norm_epsilon", norm_epsilon, norm_epsilon, epsilon);
  read_experts(fields, layers, config.dense_layers, config.experts);
  if (!fields.status()) return tl::unexpected(fields.status().error());
  if (Status checked = check_config(config.experts); !checked) return failure(std::move(checked));
  const std::int32_t pairs = 2 * config.heads;
  if (config.experts.hidden % pairs != 0) {
    return failure(Errc::invalid_argument, fmt::format("width {} is no multiple of {}, twice the heads",
                                                       config.experts.hidden, pairs));
  }
  return config;
}

}  // namespace trimtab::moe
