// SPDX-License-Identifier: Apache-2.0
#include <trimtab/transport/collectives.hpp>
#include <trimtab/transport/decorator.hpp>
#include <trimtab/transport/inproc.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "verify/virtual_clock.hpp"

namespace trimtab::test {
namespace {

/// Its back-end takes long to let go of what is cancelled.
class SlowToLetGo final : public TransportDecorator {
 public:
  using TransportDecorator::TransportDecorator;
  void cancel(Ticket) noexcept override {}
};

TEST(Collectives, MemoryThatIsNotLetGoOfStaysWhatItWas) {
  auto ends = std::move(*make_inproc_transports(2));
  SlowToLetGo sender(std::move(ends[1]));
  const verify::VirtualClock clock;
  const std::vector mine(100, std::byte{7});
  std::vector<std::byte> all(200);
  const Status gathered = all_gather(sender, clock, {.tag = Tag{3}, .deadline = {}}, mine, all);
  ASSERT_FALSE(gathered);
  EXPECT_EQ(gathered.error().code, Errc::timeout);

  std::vector<std::byte> late(sizeof(std::uint64_t) + mine.size());  // Rank 0 comes after all.
  const Leg leg = receive_leg(Rank{1}, Tag{3}, late);
  const Ticket ticket = *ends[0]->post({&leg, 1});
  ASSERT_EQ(*ends[0]->poll(ticket, std::chrono::seconds(1)), Progress::done);
  EXPECT_TRUE(std::equal(mine.begin(), mine.end(), late.begin() + sizeof(std::uint64_t)));
}

}  // namespace
}  // namespace trimtab::test
