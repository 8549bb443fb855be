// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/checksum.hpp>
#include <trimtab/transport/transport.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace trimtab {

/// The running checksum of one bundle, over its own memory and in its own order, whatever a transport does
/// with messages: a transport only says when to go on. What it does not say is made up for later.
class BundleChecksum final : public LegWatcher {
 public:
  /// `parts`: the bundle's memory, in order; borrowed.
  BundleChecksum(Checksum empty, std::vector<std::span<const std::byte>> parts)
      : running_(std::move(empty)), parts_(std::move(parts)) {}

  /// Takes in the next `size` bytes, or what is left.
  void pass(std::size_t size) noexcept override;
  /// Takes in what lies before `offset` of the bundle and was not yet.
  void pass_to(std::size_t offset) noexcept;
  /// Of everything that was passed.
  [[nodiscard]] std::uint64_t digest() const noexcept { return running_.digest(); }

 private:
  Checksum running_;
  std::vector<std::span<const std::byte>> parts_;
  std::size_t part_ = 0;
  std::size_t num_passed_ = 0;  ///< Bytes, of all parts.
  std::size_t in_part_ = 0;     ///< Bytes, of this one.
};

}  // namespace trimtab
