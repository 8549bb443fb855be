// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace trimtab {

/// Rows of ids in a buffer, and where their slots go: the same memory or another of the same layout.
template <class Id>
struct IdRows {
  const Id* in = nullptr;
  Id* out = nullptr;
  std::size_t num_rows = 0;
  std::size_t width = 0;   ///< Ids of a row that are dispatched.
  std::size_t stride = 0;  ///< Ids from one row to the next.

  [[nodiscard]] bool is_contiguous() const noexcept { return width == stride; }
  [[nodiscard]] std::size_t num_ids() const noexcept { return num_rows * width; }
  [[nodiscard]] IdRows part(std::size_t first, std::size_t count) const noexcept {
    return {in + first * stride, out + first * stride, count, width, stride};
  }
};

/// Calls `visit(in, out, count)` for every unbroken run of ids.
template <class Id, class Visit>
void for_each_run(const IdRows<Id>& rows, Visit visit) {
  if (rows.is_contiguous()) return visit(rows.in, rows.out, rows.num_ids());
  for (std::size_t row = 0; row < rows.num_rows; ++row) {
    visit(rows.in + row * rows.stride, rows.out + row * rows.stride, rows.width);
  }
}

/// How far ahead of its use memory is asked for: a page, since the hardware's own prefetching ends at the
/// border of one.
inline constexpr std::size_t prefetch_bytes = 4096;

/// Asks for memory that will soon be read (or, with `is_written`, written). `count` bounds the run, so that
/// no address beyond it is formed.
template <bool is_written, class Id>
void prefetch_ahead(const Id* ids, std::size_t at, std::size_t count) noexcept {
  const std::size_t ahead = at + prefetch_bytes / sizeof(Id);
  __builtin_prefetch(ids + (ahead < count ? ahead : count - 1), is_written ? 1 : 0);
}

}  // namespace trimtab
