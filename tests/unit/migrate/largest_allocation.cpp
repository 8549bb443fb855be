// SPDX-License-Identifier: Apache-2.0
#include "unit/migrate/largest_allocation.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::size_t> largest = 0;

void* counted(void* memory, std::size_t size) noexcept {
  std::size_t before = largest.load();
  while (size > before && !largest.compare_exchange_weak(before, size)) {
  }
  return memory;
}

void* or_throw(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void* take(std::size_t size) noexcept { return counted(std::malloc(size == 0 ? 1 : size), size); }

}  // namespace

// All forms that standard algorithms use: sanitizers mind when one form allocates and another frees.
void* operator new(std::size_t size) { return or_throw(take(size)); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return take(size); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  const auto align = static_cast<std::size_t>(alignment);
  return or_throw(counted(std::aligned_alloc(align, (size + align) / align * align), size));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace trimtab::test {

std::size_t take_largest_allocation() noexcept { return largest.exchange(0); }

}  // namespace trimtab::test
