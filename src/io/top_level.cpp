// SPDX-License-Identifier: Apache-2.0
#include "io/top_level.hpp"

#include "io/json_end.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace trimtab {
namespace {

namespace sj = simdjson;

constexpr std::size_t max_quoted_bytes = 24;
constexpr std::size_t max_listed_keys = 4;

tl::unexpected<Error> bad(std::string message) { return failure(Errc::invalid_argument, std::move(message)); }

std::string position_text(const JsonEnd& end) {
  const auto& at = end.indices;
  if (end.deepest == 2 && at.size() == 2) return fmt::format(", in layer {}, entry {}", at[0], at[1]);
  if (end.deepest == 3 && at.size() == 3) {
    return fmt::format(", in step {}, layer {}, entry {}", at[0], at[1], at[2]);
  }
  return at.empty() ? "" : fmt::format(", inside {}", quote_token(end.key));
}

tl::unexpected<Error> truncated(std::string_view text) {
  return bad(fmt::format("truncated JSON: the text ends after {} bytes{}", text.size(),
                         position_text(find_json_end(text))));
}

tl::unexpected<Error> continued(std::string_view text, std::size_t end_bytes) {
  const std::string_view rest = text.substr(end_bytes);
  const std::size_t first = std::min(rest.find_first_not_of(" \t\r\n"), rest.size());
  return bad(fmt::format("text after the end of the JSON object, at byte {}: {}", end_bytes + first,
                         quote_token(rest.substr(first))));
}

/// One pass over the outermost object.
class Walk {
 public:
  Walk(const JsonText& text, std::string_view key, const ReadValue& read)
      : text_(text), view_(text.view()), key_(key), read_(read) {}

  Status run() {
    const sj::padded_string_view padded(view_.data(), view_.size(), text_.capacity());
    if (const auto error = parser_.iterate(padded).get(document_)) return cannot_start(error);
    sj::ondemand::object object;
    if (const auto error = document_.get_object().get(object)) return cannot_start(error);
    for (auto field : object) {
      if (Status done = visit(std::move(field)); !done) return done;
    }
    return finish();
  }

 private:
  Status cannot_start(sj::error_code error) {
    const std::size_t first = std::min(view_.find_first_not_of(" \t\r\n"), view_.size());
    if (error == sj::UTF8_ERROR) return bad("not JSON: the text is not valid UTF-8");
    if (first == view_.size()) return bad(fmt::format("not JSON: {} bytes of white space", view_.size()));
    if (view_[first] != '{') {
      return bad(fmt::format("not a JSON object with the key \"{}\": begins with {}", key_,
                             quote_token(view_.substr(first))));
    }
    const JsonEnd end = find_json_end(view_);
    if (end.is_complete && end.end_bytes < view_.size()) return continued(view_, end.end_bytes);
    if (!end.is_complete) return truncated(view_);
    return bad(fmt::format("not JSON: {}", sj::error_message(error)));
  }

  Status visit(sj::simdjson_result<sj::ondemand::field> result) {
    sj::ondemand::field field;
    if (const auto error = std::move(result).get(field)) return malformed(error);
    std::string_view name;
    if (const auto error = field.unescaped_key().get(name)) return malformed(error);
    if (name != key_) {
      if (other_keys_.size() < max_listed_keys) other_keys_.push_back(quote_token(name));
      return {};
    }
    // A parser takes the first of two equal keys or the last; which one was meant is not for us to guess.
    if (std::exchange(is_found_, true)) return bad(fmt::format("the key \"{}\" is there twice", key_));
    return read_(field.value());
  }

  Status finish() {
    if (const char* at = nullptr; document_.current_location().get(at) == sj::SUCCESS) {
      return continued(view_, static_cast<std::size_t>(at - view_.data()));
    }
    if (is_found_) return {};
    return bad(fmt::format("no key \"{}\"; the keys are: {}", key_,
                           other_keys_.empty() ? "none" : fmt::format("{}", fmt::join(other_keys_, ", "))));
  }

  Status malformed(sj::error_code error) {
    const char* at = nullptr;
    if (document_.current_location().get(at) != sj::SUCCESS) return truncated(view_);
    const auto offset = static_cast<std::size_t>(at - view_.data());
    return bad(fmt::format("malformed JSON at byte {}, near {}: {}", offset,
                           quote_token(view_.substr(offset)), sj::error_message(error)));
  }

  const JsonText& text_;
  std::string_view view_;
  std::string_view key_;
  const ReadValue& read_;
  sj::ondemand::parser parser_;
  sj::ondemand::document document_;
  bool is_found_ = false;
  std::vector<std::string> other_keys_;
};

}  // namespace

Status read_top_level(const JsonText& text, std::string_view key, const ReadValue& read) {
  Status done = Walk(text, key, read).run();
  if (!done) done.error().message = fmt::format("{}: {}", text.path(), done.error().message);
  return done;
}

bool has_top_level_key(const JsonText& text, std::string_view key) {
  const std::string_view view = text.view();
  sj::ondemand::parser parser;
  sj::ondemand::document document;
  sj::ondemand::object object;
  const sj::padded_string_view padded(view.data(), view.size(), text.capacity());
  if (parser.iterate(padded).get(document)) return false;
  if (document.get_object().get(object)) return false;
  for (auto field : object) {
    std::string_view name;
    if (field.unescaped_key().get(name)) return false;
    if (name == key) return true;
  }
  return false;
}

std::string quote_token(std::string_view token) {
  std::string text = "'";
  for (const char c : token.substr(0, max_quoted_bytes)) text += c >= ' ' && c <= '~' ? c : '?';
  while (text.size() > 1 && text.back() == ' ') text.pop_back();
  return text + (token.size() > max_quoted_bytes ? "...'" : "'");
}

}  // namespace trimtab
