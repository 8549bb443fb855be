// SPDX-License-Identifier: Apache-2.0
#include "app/console.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

namespace trimtab {
namespace {

constexpr std::uint64_t large_file_bytes = std::uint64_t{64} << 20;
constexpr std::size_t bar_width = 30;

std::string in_one_line(std::string_view message) {
  std::string line(message);
  std::ranges::replace_if(
      line, [](char c) { return (c >= 0 && c < ' ') || c == 0x7f; }, ' ');
  return line;
}

void draw_bar(const std::string& name, std::uint64_t done_bytes, std::uint64_t total_bytes) {
  if (done_bytes >= total_bytes) return print_talk("\r\033[K");
  const auto filled = static_cast<std::size_t>(bar_width * done_bytes / total_bytes);
  print_talk(fmt::format("\r\033[Kreading {} [{}{}] {} of {} MB", name, std::string(filled, '#'),
                         std::string(bar_width - filled, '.'), done_bytes / 1000000, total_bytes / 1000000));
}

}  // namespace

bool is_talk_on_terminal() { return ::isatty(STDERR_FILENO) == 1; }

bool may_color_talk() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const bool is_refused = no_color != nullptr && *no_color != '\0';
  const bool is_dumb = term == nullptr || std::string_view(term) == "dumb";
  return is_talk_on_terminal() && !is_refused && !is_dumb;
}

void print_error(std::string_view who, std::string_view message) {
  const bool color = may_color_talk();
  print_talk(fmt::format("{}{}:{} {}\n", color ? "\033[1;31m" : "", who, color ? "\033[0m" : "",
                         in_one_line(message)));
}

void print_data(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void print_talk(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }

ReadProgress read_progress_bar(const std::string& path) {
  if (!is_talk_on_terminal()) return {};
  return [name = in_one_line(std::filesystem::path(path).filename().string())](std::uint64_t done_bytes,
                                                                               std::uint64_t total_bytes) {
    if (total_bytes >= large_file_bytes) draw_bar(name, done_bytes, total_bytes);
  };
}

}  // namespace trimtab
