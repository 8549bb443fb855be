// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/result.hpp>
#include <trimtab/weights/safetensors.hpp>

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trimtab {

/// A tensor to be written; its place follows from its turn.
struct SafetensorsEntry {
  std::string name;
  SafetensorsType type = SafetensorsType::u8;
  std::vector<std::uint64_t> shape;
};

/// Writes one safetensors file, which appears under its name whole or not at all: it grows beside it, is
/// synced, and renamed.
///
/// Lifecycle: create -> append all bytes -> commit; destroyed before that, nothing is left behind. (A killed
/// process leaves a hidden `.NAME.*.tmp`.) One thread at a time. Errors: `io`, naming the file.
class SafetensorsWriter {
 public:
  /// @return `invalid_argument` for a name that is there twice, not UTF-8 or reserved; metadata that is not
  ///         UTF-8; a shape that overflows; a header beyond `SafetensorsFile::max_header_bytes`.
  static Result<SafetensorsWriter> create(const std::string& path, std::vector<SafetensorsEntry> tensors,
                                          SafetensorsMetadata metadata = {});
  SafetensorsWriter(SafetensorsWriter&&) noexcept;
  SafetensorsWriter& operator=(SafetensorsWriter&&) noexcept;
  ~SafetensorsWriter();

  /// The next bytes: tensor after tensor, in pieces of any size.
  /// @return `invalid_argument`, and nothing written, for more bytes than the tensors have.
  Status append(std::span<const std::byte> bytes);

  /// Replaces a value that `create` was given by one that takes the same room: for what is known only after
  /// the bytes, such as their checksum.
  /// @return `not_found` for another key; `invalid_argument` for a value of another length.
  Status replace_metadata(std::string_view key, std::string value);

  /// Puts the file in its place. Call once.
  /// @return `invalid_argument` when bytes are missing. Whatever it returns but success, a file that was
  ///         there is unchanged.
  Status commit();

 private:
  struct State;
  explicit SafetensorsWriter(std::unique_ptr<State> state) noexcept;

  std::unique_ptr<State> state_;
};

/// Of a checkpoint in several files: which tensor lies in which (`model.safetensors.index.json`).
struct SafetensorsIndex {
  std::map<std::string, std::string, std::less<>> file_of;  ///< By tensor; file names in the index's folder.
  std::uint64_t total_bytes = 0;  ///< Of all tensors; 0 when the index does not say.

  /// @return `not_found` or `io`; `invalid_argument` for text that is not an index, a tensor named twice, or
  ///         a file name that leads out of the folder.
  static Result<SafetensorsIndex> read(const std::string& path);
  /// Whole or not at all, as a SafetensorsWriter does it.
  Status write(const std::string& path) const;
};

}  // namespace trimtab
