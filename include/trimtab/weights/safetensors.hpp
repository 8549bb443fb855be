// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/result.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trimtab {

/// Element types that a safetensors file may name.
enum class SafetensorsType : std::uint8_t {
  boolean,
  f4,
  f6_e2m3,
  f6_e3m2,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  f8_e8m0,
  f8_e5m2fnuz,
  f8_e4m3fnuz,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  c64,
  f64,
  i64,
  u64,
};

/// The name as it stands in files: "F32", "BF16", …
[[nodiscard]] std::string_view to_string(SafetensorsType type) noexcept;
/// Bits of one element; 4 and 6 for the packed ones.
[[nodiscard]] std::uint64_t bits_of(SafetensorsType type) noexcept;
/// Bytes of a tensor, a scalar for an empty shape.
/// @return `invalid_argument` when they overflow 64 bits or are no whole number.
[[nodiscard]] Result<std::uint64_t> tensor_bytes(SafetensorsType type, std::span<const std::uint64_t> shape);

/// One tensor of a file. `begin` and `end` are counted in bytes from the end of the header.
struct SafetensorsTensor {
  std::string name;
  SafetensorsType type = SafetensorsType::u8;
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  [[nodiscard]] std::uint64_t size_bytes() const noexcept { return end - begin; }
};

/// What a file says of itself: `__metadata__`.
using SafetensorsMetadata = std::map<std::string, std::string, std::less<>>;

/// One safetensors file, open and mapped for reading. Its header was checked whole: every name once, every
/// tensor as long as type and shape say, tensors one behind the other without gap up to the end of the file.
///
/// Threads: const calls may run together. Errors: messages name the file, the tensor, the value and the
/// limit.
class SafetensorsFile {
 public:
  /// Longest header that is read, the format's own limit.
  static constexpr std::uint64_t max_header_bytes = 100'000'000;

  /// @return `not_found` or `io` when the file cannot be opened, read or mapped; `invalid_argument` when
  ///         anything in it is not as above.
  static Result<SafetensorsFile> open(const std::string& path);
  SafetensorsFile(SafetensorsFile&&) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) noexcept;
  ~SafetensorsFile();

  [[nodiscard]] const std::string& path() const noexcept;
  /// Sorted by name.
  [[nodiscard]] std::span<const SafetensorsTensor> tensors() const noexcept;
  [[nodiscard]] const SafetensorsMetadata& metadata() const noexcept;
  /// Null when the file has no such tensor. Valid as long as the file is open.
  [[nodiscard]] const SafetensorsTensor* find(std::string_view name) const noexcept;

  /// The tensor's bytes, mapped; not aligned to anything. Precondition: `tensor` is of this file. Whoever
  /// touches a page that somebody has cut off the file meanwhile is stopped by SIGBUS: use `read` where that
  /// may not be.
  [[nodiscard]] std::span<const std::byte> bytes(const SafetensorsTensor& tensor) const noexcept;

  /// Copies bytes of a tensor from `offset` on. Safe when the file is cut off or cannot be read.
  /// @return `invalid_argument` for bytes beyond the tensor; `io`, and `to` unspecified, when the file ends
  ///         before them or the system refuses.
  Status read(const SafetensorsTensor& tensor, std::uint64_t offset, std::span<std::byte> to) const;

  /// Has the system fetch a tensor's pages while other work goes on. A hint: it may do nothing.
  void prefetch(const SafetensorsTensor& tensor) const noexcept;

 private:
  struct Contents;
  explicit SafetensorsFile(std::unique_ptr<Contents> contents) noexcept;

  std::unique_ptr<Contents> contents_;
};

}  // namespace trimtab
