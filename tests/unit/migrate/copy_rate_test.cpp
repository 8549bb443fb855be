// SPDX-License-Identifier: Apache-2.0
#include "migrate/copy_rate.hpp"

#include <gtest/gtest.h>

namespace trimtab::test {
namespace {

using namespace std::chrono_literals;

TEST(CopyRate, IsUnknownUntilSomethingWasMeasured) {
  CopyRate rate;
  EXPECT_FALSE(rate.bytes_per_s());
  rate.add(0, 1s);
  rate.add(1000, 0s);
  EXPECT_FALSE(rate.bytes_per_s());
}

TEST(CopyRate, FollowsASlowExchangeFasterThanAFastOne) {
  CopyRate slower;
  CopyRate faster;
  for (CopyRate* rate : {&slower, &faster}) rate->add(1000, 1s);
  EXPECT_DOUBLE_EQ(*slower.bytes_per_s(), 1000.0);
  slower.add(1000, 5s);  // A quarter of four seconds more per thousand bytes.
  EXPECT_DOUBLE_EQ(*slower.bytes_per_s(), 500.0);
  faster.add(5000, 1s);
  EXPECT_DOUBLE_EQ(*faster.bytes_per_s(), 1250.0);
}

}  // namespace
}  // namespace trimtab::test
