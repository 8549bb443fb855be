// SPDX-License-Identifier: Apache-2.0
#include "expert_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace trimtab {
namespace {

constexpr std::string_view layer_field = "{layer}";
constexpr std::string_view expert_field = "{expert}";
constexpr std::string_view tensor_field = "{tensor}";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_once(std::string_view pattern, std::string_view field) {
  const std::size_t at = pattern.find(field);
  return at != std::string_view::npos && pattern.find(field, at + 1) == std::string_view::npos;
}

/// Takes `literal` off the front of `text`.
bool skip(std::string_view& text, std::string_view literal) {
  if (!text.starts_with(literal)) return false;
  text.remove_prefix(literal.size());
  return true;
}

/// A number as it is printed: no sign, no leading zero.
std::optional<std::int32_t> take_number(std::string_view& text) {
  std::int32_t value = 0;
  if (text.empty() || !is_digit(text.front())) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const auto length = static_cast<std::size_t>(end - text.data());
  if (error != std::errc{} || (text.front() == '0' && length > 1)) return std::nullopt;
  text.remove_prefix(length);
  return value;
}

}  // namespace

Result<ExpertNames> ExpertNames::make(const std::string& pattern) {
  const auto bad = [&](std::string_view why) {
    return failure(Errc::invalid_argument, fmt::format("pattern '{}': {}", pattern, why));
  };
  for (const std::string_view field : {layer_field, expert_field, tensor_field}) {
    if (!is_once(pattern, field)) return bad(fmt::format("{} is not there once", field));
  }
  const std::size_t layer = pattern.find(layer_field);
  const std::size_t expert = pattern.find(expert_field);
  const std::size_t tensor = pattern.find(tensor_field);
  if (tensor < std::max(layer, expert)) return bad("{tensor} is not the last of the three");
  ExpertNames names;
  names.is_layer_first_ = layer < expert;
  const std::size_t first_end =
      names.is_layer_first_ ? layer + layer_field.size() : expert + expert_field.size();
  const std::size_t second = std::max(layer, expert);
  const std::size_t second_end =
      names.is_layer_first_ ? expert + expert_field.size() : layer + layer_field.size();
  names.before_ = pattern.substr(0, std::min(layer, expert));
  names.between_ = pattern.substr(first_end, second - first_end);
  names.behind_ = pattern.substr(second_end, tensor - second_end);
  names.suffix_ = pattern.substr(tensor + tensor_field.size());
  if (names.between_.empty() || is_digit(names.between_.front()) || is_digit(names.between_.back())) {
    return bad("{layer} and {expert} must be apart by something that is no digit");
  }
  if (names.behind_.empty() || is_digit(names.behind_.front()))
    return bad("a digit, or nothing, behind a number");
  return names;
}

std::string ExpertNames::name(LayerId layer, ExpertId expert, std::string_view tensor) const {
  const std::int32_t first = is_layer_first_ ? layer.value() : expert.value();
  const std::int32_t second = is_layer_first_ ? expert.value() : layer.value();
  return fmt::format("{}{}{}{}{}{}{}", before_, first, between_, second, behind_, tensor, suffix_);
}

std::optional<ExpertTensorName> ExpertNames::match(std::string_view name) const {
  if (!skip(name, before_)) return std::nullopt;
  const auto first = take_number(name);
  if (!first || !skip(name, between_)) return std::nullopt;
  const auto second = take_number(name);
  if (!second || !skip(name, behind_) || !name.ends_with(suffix_)) return std::nullopt;
  name.remove_suffix(suffix_.size());
  const std::int32_t layer = is_layer_first_ ? *first : *second;
  const std::int32_t expert = is_layer_first_ ? *second : *first;
  return ExpertTensorName{LayerId{layer}, ExpertId{expert}, name};
}

}  // namespace trimtab
