// SPDX-License-Identifier: Apache-2.0
#include "conformance/ends.hpp"
#include "conformance/transport_conformance.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <numeric>

namespace trimtab::test {
namespace {

constexpr CollectiveOptions options{.tag = Tag{100}, .deadline = std::chrono::minutes(1)};

std::int64_t count_of(Rank rank, std::size_t i) {
  return static_cast<std::int64_t>(i) * 7 + rank.value() * 1000 - 3;
}

TEST_P(TransportConformance, AllReduceSumsElementByElement) {
  run([&](End end) {
    for (std::size_t size : {0U, 1U, 5U, 16'384U}) {
      std::vector<std::int64_t> values(size);
      for (std::size_t i = 0; i < size; ++i) values[i] = count_of(end->rank(), i);
      ASSERT_TRUE(all_reduce_sum(*end, SteadyClock(), options, values));
      for (std::size_t i = 0; i < size; ++i) {
        std::int64_t expected = 0;
        for (Rank rank : ids<Rank>(num_ranks())) expected += count_of(rank, i);
        ASSERT_EQ(values[i], expected) << "element " << i << " of " << size;
      }
    }
  });
}

// sgl-project/sglang: a window of 1000 steps x 65k tokens overflowed counters that were reduced as int32.
TEST_P(TransportConformance, AllReduceIsExactBeyond32Bits) {
  run([&](End end) {
    constexpr std::int64_t beyond = (std::int64_t{1} << 31) - 1;
    std::array<std::int64_t, 3> values{65'536'000, beyond, (std::int64_t{1} << 53) + 1};
    ASSERT_TRUE(all_reduce_sum(*end, SteadyClock(), options, values));
    const std::array<std::int64_t, 3> expected{65'536'000 * std::int64_t{num_ranks()}, beyond * num_ranks(),
                                               ((std::int64_t{1} << 53) + 1) * num_ranks()};
    EXPECT_EQ(values, expected);
  });
}

TEST_P(TransportConformance, AllReduceWrapsLikeUnsigned) {
  NEEDS_PEERS();
  run([](End end) {
    std::array<std::int64_t, 1> values{0};
    if (end->rank() == Rank{0}) values[0] = std::numeric_limits<std::int64_t>::max();
    if (end->rank() == Rank{1}) values[0] = 1;
    ASSERT_TRUE(all_reduce_sum(*end, SteadyClock(), options, values));
    EXPECT_EQ(values[0], std::numeric_limits<std::int64_t>::min());
  });
}

TEST_P(TransportConformance, AllGatherKeepsRankOrder) {
  run([&](End end) {
    for (std::size_t size : {0U, 1U, 1000U, 100'000U}) {
      const Bytes mine = pattern(end->rank(), Rank{0}, 1, size);
      Bytes all(size * static_cast<std::size_t>(num_ranks()));
      ASSERT_TRUE(all_gather(*end, SteadyClock(), options, mine, all));
      for (Rank rank : ids<Rank>(num_ranks())) {
        const auto part = std::span(all).subspan(rank.index() * size, size);
        EXPECT_TRUE(std::ranges::equal(part, pattern(rank, Rank{0}, 1, size))) << rank.value();
      }
    }
  });
}

TEST_P(TransportConformance, AllGatherRefusesRoomOfAnotherSize) {
  run([&](End end) {
    const Bytes mine(8);
    Bytes all(8 * static_cast<std::size_t>(num_ranks()) + 1);
    const Status gathered = all_gather(*end, SteadyClock(), options, mine, all);
    ASSERT_FALSE(gathered);
    EXPECT_EQ(gathered.error().code, Errc::invalid_argument);
  });
}

TEST_P(TransportConformance, NoRankLeavesBarrierBeforeAllHaveCalledIt) {
  run([&](End end) {
    for (int i = 0; i < 20; ++i) {
      using Times = std::array<std::int64_t, 2>;  // of call and return; one machine, one monotonic clock
      const auto now = [] { return std::chrono::steady_clock::now().time_since_epoch().count(); };
      Times mine{now(), 0};
      ASSERT_TRUE(barrier(*end, SteadyClock(), options));
      mine[1] = now();
      std::vector<Times> all(static_cast<std::size_t>(num_ranks()));
      ASSERT_TRUE(all_gather(*end, SteadyClock(), options, std::as_bytes(std::span(mine)),
                             std::as_writable_bytes(std::span(all))));
      for (const Times& one : all) {
        for (const Times& other : all) EXPECT_LE(one[0], other[1]);
      }
    }
  });
}

TEST_P(TransportConformance, CollectivesEndWhenWhatTheyDoMeanwhileFails) {
  NEEDS_PEERS();
  run([](End end) {
    int num_calls = 0;
    CollectiveOptions watched{.tag = Tag{210}, .deadline = std::chrono::minutes(1)};
    const std::function<Status()> watch = [&]() -> Status {
      if (++num_calls < 3) return {};
      return failure(Errc::cancelled, "enough");
    };
    watched.while_waiting = &watch;
    if (end->rank() != Rank{1}) {  // rank 1 never calls
      const Status status = barrier(*end, SteadyClock(), watched);
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().code, Errc::cancelled);
      EXPECT_EQ(status.error().message, "enough");
      EXPECT_EQ(num_calls, 3);
    }
    meet(*end);
  });
}

TEST_P(TransportConformance, CollectivesNameTheRankThatIsMissing) {
  NEEDS_PEERS();
  run([](End end) {
    const LeapingClock clock(std::chrono::seconds(1));
    for (std::uint32_t kind = 0; kind < 3; ++kind) {
      const CollectiveOptions hurried{.tag = Tag{200 + kind}, .deadline = std::chrono::seconds(20)};
      std::array<std::int64_t, 2> values{4, 5};
      const Bytes mine(4, std::byte{7});
      Bytes all(4 * static_cast<std::size_t>(end->num_ranks()));
      Status status;
      if (end->rank() != Rank{1}) {  // rank 1 never calls
        status = kind == 0   ? all_reduce_sum(*end, clock, hurried, values)
                 : kind == 1 ? all_gather(*end, clock, hurried, mine, all)
                             : barrier(*end, clock, hurried);
        ASSERT_FALSE(status);
        EXPECT_EQ(status.error().code, Errc::timeout);
        const char* const waited_for = end->rank() == Rank{0} ? "for rank 1" : "for rank 0";
        EXPECT_NE(status.error().message.find(waited_for), std::string::npos) << status.error().message;
        EXPECT_NE(status.error().message.find("20000 ms"), std::string::npos) << status.error().message;
      }
      EXPECT_EQ(values, (std::array<std::int64_t, 2>{4, 5})) << "outputs are written only after success";
      EXPECT_EQ(std::ranges::count(all, std::byte{0}), std::ssize(all));
    }
    meet(*end);  // other tags still work
  });
}

TEST_P(TransportConformance, CollectivesFindOutRanksThatDisagreeAboutSize) {
  NEEDS_PEERS();
  run([](End end) {
    for (std::size_t size : {1U, 3U}) {  // less and more than the root's 2
      const LeapingClock clock(std::chrono::seconds(1));
      const CollectiveOptions hurried{.tag = Tag{300 + static_cast<std::uint32_t>(size)},
                                      .deadline = std::chrono::seconds(400)};
      std::vector<std::int64_t> values(end->rank() == Rank{1} ? size : 2, 1);
      if (end->rank().value() < 2) {
        const Status reduced = all_reduce_sum(*end, clock, hurried, values);
        ASSERT_FALSE(reduced);
        if (end->rank() == Rank{0}) {
          EXPECT_EQ(reduced.error().code, Errc::invalid_argument) << reduced.error().message;
          EXPECT_NE(reduced.error().message.find("rank 1"), std::string::npos) << reduced.error().message;
        }
      }
      meet(*end);
    }
  });
}

}  // namespace
}  // namespace trimtab::test
