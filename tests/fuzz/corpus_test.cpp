// SPDX-License-Identifier: Apache-2.0
// Replays what the fuzzers found worth keeping, and random inputs, so that every build runs their checks.
#include "fuzz/fuzz_input.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

namespace trimtab::test {
namespace {

using Target = void (*)(std::span<const std::uint8_t>);

std::size_t replay(const std::string& name, Target target) {
  std::size_t num_inputs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(TRIMTAB_FUZZ_CORPUS "/") + name)) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::vector<std::uint8_t> bytes(std::istreambuf_iterator<char>(file), {});
    target(bytes);
    ++num_inputs;
  }
  return num_inputs;
}

void run_random(Target target, unsigned seed) {
  std::mt19937 random(seed);
  for (int i = 0; i < 3000; ++i) {
    std::vector<std::uint8_t> bytes(random() % 400);
    for (auto& byte : bytes) byte = random() % 3 == 0 ? std::uint8_t{0} : static_cast<std::uint8_t>(random());
    target(bytes);
  }
}

TEST(FuzzCorpus, TablesHoldTheirInvariants) { EXPECT_GT(replay("table", fuzz_table), 0U); }
TEST(FuzzCorpus, DispatchNeverLeavesItsBuffers) { EXPECT_GT(replay("dispatch", fuzz_dispatch), 0U); }
TEST(FuzzCorpus, DamagedBuffersAreNeverTrusted) { EXPECT_GT(replay("buffer", fuzz_buffer), 0U); }
TEST(FuzzCorpus, HeadersThatAreTakenAreSound) { EXPECT_GT(replay("header", fuzz_header), 0U); }
TEST(FuzzCorpus, TracesThatAreTakenAreSound) { EXPECT_GT(replay("trace", fuzz_trace), 0U); }

TEST(FuzzRandom, TablesHoldTheirInvariants) { run_random(fuzz_table, 1); }
TEST(FuzzRandom, DispatchNeverLeavesItsBuffers) { run_random(fuzz_dispatch, 2); }
TEST(FuzzRandom, DamagedBuffersAreNeverTrusted) { run_random(fuzz_buffer, 3); }
TEST(FuzzRandom, HeadersThatAreTakenAreSound) { run_random(fuzz_header, 4); }
TEST(FuzzRandom, TracesThatAreTakenAreSound) { run_random(fuzz_trace, 5); }

}  // namespace
}  // namespace trimtab::test
