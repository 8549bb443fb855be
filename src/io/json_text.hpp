// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/result.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace trimtab {

/// Told after each piece that was read: bytes so far, and of the whole file (0 when not known, as in a pipe).
using ReadProgress = std::function<void(std::uint64_t done_bytes, std::uint64_t total_bytes)>;

/// The bytes of a JSON file, not yet parsed, with the spare room behind them that simdjson reads into.
class JsonText {
 public:
  /// Reads a file, a pipe or, for "-", standard input to its end.
  /// @return `not_found`, `io` (a directory, no permission, a failed read) or `invalid_argument` (empty, or
  /// too
  ///         large for simdjson's 32-bit offsets), naming the path.
  static Result<JsonText> read(const std::string& path, const ReadProgress& progress = {});

  /// Text that is already in memory; `path` is the name that messages use.
  static JsonText copy_of(std::string path, std::string_view text);

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] std::string_view view() const noexcept { return {bytes_.get(), size_}; }
  /// Bytes that may be read from the start of `view()`, spare room included.
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }

 private:
  explicit JsonText(std::string path) : path_(std::move(path)) {}
  void reserve(std::size_t size);
  Status read_to_end(int descriptor, std::uint64_t total_bytes, const ReadProgress& progress);

  std::string path_;
  std::unique_ptr<char[]> bytes_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace trimtab
