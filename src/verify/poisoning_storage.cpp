// SPDX-License-Identifier: Apache-2.0
#include "verify/poisoning_storage.hpp"

#include <algorithm>

namespace trimtab::verify {

PoisoningStorage::PoisoningStorage(std::span<std::byte> storage, Matrix matrix)
    : storage_(storage), transcription_{matrix} {
  accept();
}

void PoisoningStorage::accept() { written_.assign(storage_.begin(), storage_.end()); }

bool PoisoningStorage::settle() {
  if (std::ranges::equal(storage_, written_)) return true;
  for (std::size_t i = 0; i < num_slots(); ++i) {
    const auto before =
        std::span(written_).subspan(i * transcription_.size_bytes(), transcription_.size_bytes());
    if (std::ranges::equal(slot(i), before)) std::ranges::fill(slot(i), poison);
  }
  accept();
  return false;
}

void PoisoningStorage::read(std::span<std::byte> nd) noexcept {
  settle();
  for (std::size_t i = 0; i < num_slots(); ++i) {
    const std::vector<std::byte> rows = transcription_.to_rows(slot(i));
    std::ranges::copy(rows, nd.begin() + static_cast<std::ptrdiff_t>(i * rows.size()));
  }
}

void PoisoningStorage::write(std::span<const std::byte> nd) noexcept {
  ++num_writes_;
  if (loses_writes_) return;
  const std::size_t size = transcription_.matrix.size_bytes();
  for (std::size_t i = 0; i < num_slots(); ++i) {
    std::ranges::copy(transcription_.to_nz(nd.subspan(i * size, size)), slot(i).begin());
  }
  accept();
}

}  // namespace trimtab::verify
