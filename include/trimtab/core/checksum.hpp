// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>

namespace trimtab {

/// A running XXH3 (64 bit) over pieces of memory: the checksum of weights, programs and outputs.
/// Not cryptographic: it finds accidents, not attackers. One thread at a time.
class Checksum {
 public:
  /// Different seeds give unrelated checksums of the same bytes.
  explicit Checksum(std::uint64_t seed = 0);
  Checksum(Checksum&&) noexcept;
  Checksum& operator=(Checksum&&) noexcept;
  ~Checksum();

  void update(std::span<const std::byte> bytes) noexcept;

  /// A value whose bytes have no padding.
  template <class T>
  requires std::has_unique_object_representations_v<T>
  void update_value(const T& value) noexcept { update(std::as_bytes(std::span<const T, 1>(&value, 1))); }

  /// Of everything so far; more may follow.
  [[nodiscard]] std::uint64_t digest() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// XXH3 of one piece of memory.
[[nodiscard]] std::uint64_t checksum_of(std::span<const std::byte> bytes, std::uint64_t seed = 0) noexcept;

}  // namespace trimtab
