// SPDX-License-Identifier: Apache-2.0
#include "io/json_end.hpp"

#include <algorithm>

namespace trimtab {
namespace {

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  JsonEnd run() {
    while (at_ < text_.size() && !end_.is_complete) step(text_[at_]);
    end_.end_bytes = at_;
    for (std::size_t i = 1; i < commas_.size(); ++i) end_.indices.push_back(commas_[i]);
    return std::move(end_);
  }

 private:
  void step(char c) {
    ++at_;
    if (c == '"') return skip_string();
    if (c == '[' || c == '{') return open();
    if (c == ']' || c == '}') return close();
    if (c == ',' && !commas_.empty()) ++commas_.back();
  }

  void skip_string() {
    const std::size_t first = at_;
    while (at_ < text_.size() && text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
    at_ = std::min(at_, text_.size());
    if (commas_.size() == 1) {
      end_.key = text_.substr(first, at_ - first);
      end_.deepest = 0;
    }
    at_ = std::min(at_ + 1, text_.size());
  }

  void open() {
    commas_.push_back(0);
    end_.deepest = std::max(end_.deepest, commas_.size() - 1);
  }

  void close() {
    if (!commas_.empty()) commas_.pop_back();
    end_.is_complete = commas_.empty();
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::vector<std::size_t> commas_;  // Of each list and object that is open, outermost first.
  JsonEnd end_;
};

}  // namespace

JsonEnd find_json_end(std::string_view text) { return Scanner(text).run(); }

}  // namespace trimtab
