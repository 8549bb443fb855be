// SPDX-License-Identifier: Apache-2.0
#include "core/checksum_kernel.hpp"

#include "core/checksum_kernel.inl"

#ifndef __AVX512F__
#error "compiled without the flags of its instruction set"
#endif

namespace trimtab {

void update_checksum_avx512(void* state, const std::byte* bytes, std::size_t size) noexcept {
  update_in_chunks(state, bytes, size);
}

}  // namespace trimtab
