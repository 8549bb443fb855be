// SPDX-License-Identifier: Apache-2.0
//
// Included by one source file for each instruction set. Those are compiled with its flags, so they must not
// contain inline functions of other headers: the linker might choose theirs for everybody.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstddef>

namespace {

constexpr std::size_t chunk_bytes = 1024;
/// Measured: alone the loop waits for memory, since it computes between its loads.
constexpr std::size_t prefetch_bytes = 2048;
constexpr std::size_t line_bytes = 64;

inline void update_in_chunks(void* state, const std::byte* bytes, std::size_t size) noexcept {
  auto* const running = static_cast<XXH3_state_t*>(state);
  for (; size >= chunk_bytes; bytes += chunk_bytes, size -= chunk_bytes) {
    {
      for (std::size_t line = 0; line < chunk_bytes; line += line_bytes)
        __builtin_prefetch(bytes + prefetch_bytes + line);
    }
    XXH3_64bits_update(running, bytes, chunk_bytes);
  }
  XXH3_64bits_update(running, bytes, size);
}

}  // namespace
