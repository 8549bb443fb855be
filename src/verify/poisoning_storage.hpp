// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "verify/nz_transcription.hpp"

#include <trimtab/weights/whole_storage.hpp>

#include <cstddef>
#include <span>
#include <vector>

namespace trimtab::verify {

/// NZ storage with the manners of a device: whole, or not at all. A slot that was written behind its back, as
/// through a view of that slot, wrecks all other slots as soon as anyone looks
/// (sgl-project/sglang#17676, #29424).
class PoisoningStorage final : public WholeStorage {
 public:
  static constexpr std::byte poison{0x66};

  /// Borrows `storage`: slots of `matrix`, one after the other.
  PoisoningStorage(std::span<std::byte> storage, Matrix matrix);

  /// What is in the storage now counts as written whole.
  void accept();
  /// Wrecks what has to be wrecked. @return whether nobody wrote a slice since `accept` or `write`.
  bool settle();

  [[nodiscard]] StorageIdentity identity() const noexcept override {
    return {storage_.data(), Format::fractal_nz};
  }
  void read(std::span<std::byte> nd) noexcept override;
  void write(std::span<const std::byte> nd) noexcept override;

  /// Whether `write` shall do nothing.
  void lose_writes(bool loses) noexcept { loses_writes_ = loses; }
  [[nodiscard]] int num_writes() const noexcept { return num_writes_; }

 private:
  [[nodiscard]] std::size_t num_slots() const { return storage_.size() / transcription_.size_bytes(); }
  [[nodiscard]] std::span<std::byte> slot(std::size_t index) const {
    return storage_.subspan(index * transcription_.size_bytes(), transcription_.size_bytes());
  }

  std::span<std::byte> storage_;
  NzTranscription transcription_;
  std::vector<std::byte> written_;
  int num_writes_ = 0;
  bool loses_writes_ = false;
};

}  // namespace trimtab::verify
