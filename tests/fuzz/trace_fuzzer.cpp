// SPDX-License-Identifier: Apache-2.0
#include "fuzz/fuzz_input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  trimtab::test::fuzz_trace({data, size});
  return 0;
}
