// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace trimtab {

/// Format tag of a tensor's storage, numbered as CANN numbers aclFormat.
enum class Format : std::uint8_t { nd = 2, fractal_nz = 29 };

/// What must never change while a tensor is registered.
struct StorageIdentity {
  const std::byte* base = nullptr;
  Format format = Format::nd;

  friend bool operator==(const StorageIdentity&, const StorageIdentity&) = default;
};

/// A tensor's storage in a format without addressable slots: it is read and written whole, or not at all.
///
/// Implemented by an engine for memory of its device: there a conversion is the device's own (a format cast
/// and a copy in place), and a write to a view of one slot may reach its neighbours. So `read` and `write`
/// are one piece of work each, however large the tensor: they hold a caller of `Engine::advance` for as long
/// as they take. Threads: calls are serialised by the store's user. Errors: none; a device that fails is the
/// engine's to stop.
class WholeStorage {
 public:
  virtual ~WholeStorage() = default;

  /// Where the storage is now and how it is tagged.
  [[nodiscard]] virtual StorageIdentity identity() const noexcept = 0;

  /// Fills `nd` with the rows of every slot, fused shared experts included, without gaps or padding.
  virtual void read(std::span<std::byte> nd) noexcept = 0;

  /// Rewrites the whole storage from the same arrangement, in place: base and format stay, padding becomes
  /// zero. Precondition: nobody reads the storage.
  virtual void write(std::span<const std::byte> nd) noexcept = 0;
};

}  // namespace trimtab
