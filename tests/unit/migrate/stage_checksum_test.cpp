// SPDX-License-Identifier: Apache-2.0
#include "migrate/stage_checksum.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace trimtab::test {
namespace {

/// A bundle of three tensors, in memory of its own.
class BundleChecksums : public testing::Test {
 protected:
  BundleChecksums() : bytes(10'000) {
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * i / 3);
  }

  [[nodiscard]] BundleChecksum make() const {
    const std::span<const std::byte> all(bytes);
    return BundleChecksum(Checksum(5), {all.first(10), all.subspan(10, 7000), all.subspan(7010)});
  }
  [[nodiscard]] std::uint64_t of_first(std::size_t size) const {
    return checksum_of(std::span(bytes).first(size), 5);
  }

  std::vector<std::byte> bytes;
};

TEST_F(BundleChecksums, GoOverAllTensorsInOrder) {
  for (const std::size_t step : {1U, 7U, 2048U, 9999U, 10'000U}) {
    BundleChecksum sum = make();
    for (std::size_t at = 0; at < bytes.size(); at += step) sum.pass(std::min(step, bytes.size() - at));
    EXPECT_EQ(sum.digest(), of_first(bytes.size())) << step;
  }
}

TEST_F(BundleChecksums, MakeUpForWhatNobodyTold) {
  BundleChecksum sum = make();
  sum.pass(2048);
  sum.pass_to(5000);
  EXPECT_EQ(sum.digest(), of_first(5000));
  sum.pass_to(4000);  // Passed already.
  EXPECT_EQ(sum.digest(), of_first(5000));
  sum.pass_to(bytes.size());
  EXPECT_EQ(sum.digest(), of_first(bytes.size()));
}

TEST_F(BundleChecksums, EndWithTheirMemoryWhateverTheyAreTold) {
  BundleChecksum sum = make();
  sum.pass(bytes.size() + 5000);
  sum.pass(1);
  EXPECT_EQ(sum.digest(), of_first(bytes.size()));
}

}  // namespace
}  // namespace trimtab::test
