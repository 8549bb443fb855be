// SPDX-License-Identifier: Apache-2.0
#include "route/quota_layer.hpp"

#include "unit/route/tables.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <random>

namespace trimtab::test {
namespace {

constexpr LayerId layer0{0};
constexpr ExpertId expert0{0};

/// One expert in one layer, on as many slots as there are assignments.
RoutingTable table_of(const std::vector<std::int64_t>& assignments) {
  const auto slots = static_cast<std::int32_t>(assignments.size());
  return make_table(make_placement(1, {std::vector<std::int32_t>(assignments.size(), 0)}), 1,
                    Split::make(1, slots, assignments).value());
}

SlotId next_slot(QuotaLayer& layer) {
  const auto [turns, ring] = layer.view();
  const std::uint64_t entry = ring[turns[0]];
  std::uint32_t next = QuotaLayer::next_of(entry);
  if (QuotaLayer::ends_lap(next)) next = layer.finish_lap(next);
  turns[0] = next;
  return SlotId{QuotaLayer::slot_of(entry)};
}

/// Counts of each replica beside what it is due, in parts of whole_share.
class Deviations {
 public:
  explicit Deviations(const RoutingTable& table) {
    const auto replicas = table.replicas(layer0, expert0);
    for (std::size_t i = 0; i < replicas.size(); ++i) {
      share_[replicas[i]] =
          static_cast<std::int64_t>(RoutingTable::share_at(table.share_begins(layer0, expert0), i));
    }
  }

  void take(SlotId slot) {
    for (const auto& [replica, share] : share_) credit_[replica] += share;
    credit_[slot] -= static_cast<std::int64_t>(RoutingTable::whole_share);
  }
  void take_many(const std::map<SlotId, std::int64_t>& counts, std::int64_t total) {
    for (const auto& [replica, share] : share_) credit_[replica] += share * total;
    for (const auto& [slot, count] : counts) {
      credit_[slot] -= static_cast<std::int64_t>(RoutingTable::whole_share) * count;
    }
  }
  /// In assignments.
  [[nodiscard]] double worst() const {
    std::int64_t worst = 0;
    for (const auto& [slot, credit] : credit_) worst = std::max(worst, std::abs(credit));
    return std::ldexp(static_cast<double>(worst), -32);
  }

 private:
  std::map<SlotId, std::int64_t> share_;
  std::map<SlotId, std::int64_t> credit_;
};

double worst_over_prefixes(const std::vector<std::int64_t>& assignments, Rank rank, int num_assignments) {
  const RoutingTable table = table_of(assignments);
  QuotaLayer layer;
  layer.build(table, layer0, rank);
  Deviations deviations(table);
  double worst = 0.0;
  for (int n = 0; n < num_assignments; ++n) {
    deviations.take(next_slot(layer));
    worst = std::max(worst, deviations.worst());
  }
  return worst;
}

TEST(QuotaLayer, StaysBelowOneAssignmentOverEveryPrefix) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 400; ++round) {
    std::vector<std::int64_t> assignments(2 + random() % 12);
    for (auto& count : assignments) count = 1 + static_cast<std::int64_t>(random() % 1000);
    const Rank rank{static_cast<std::int32_t>(random() % 64)};
    EXPECT_LT(worst_over_prefixes(assignments, rank, 1500), 1.0) << testing::PrintToString(assignments);
  }
}

// Shares that differ by orders of magnitude, and that lie close to each other: where simple rules go wrong.
TEST(QuotaLayer, StaysBelowOneAssignmentForHardShares) {
  const std::vector<std::vector<std::int64_t>> hard{
      {1, 1000000},          {1, 1, 1, 1000},         {1, 2, 4, 8, 16, 32, 64, 128, 256, 512},
      {9, 90, 900, 9000},    {499, 500, 501},         {3, 3, 3, 1},
      {100, 100, 100, 1, 1}, {1, 1, 1, 1, 1, 1, 100}, {50, 50, 50, 50, 50, 50, 50, 1, 1, 1, 1, 1, 1, 1}};
  for (const auto& assignments : hard) {
    for (const Rank rank : ids<Rank>(7)) {
      EXPECT_LT(worst_over_prefixes(assignments, rank, 5000), 1.0) << testing::PrintToString(assignments);
    }
  }
}

TEST(QuotaLayer, ManyReplicasStayBelowOneAssignment) {
  std::mt19937_64 random(2);
  for (const std::size_t count : {40U, 97U, 200U}) {
    std::vector<std::int64_t> assignments(count);
    for (auto& a : assignments) a = 1 + static_cast<std::int64_t>(random() % 100);
    EXPECT_LT(worst_over_prefixes(assignments, Rank{5}, 2000), 1.0);
  }
}

// What one replica of two has taken after n assignments can only be one of two numbers, so where the sequence
// stands after a jump tells whether it drifted: a replica that is behind by d must be served within the time
// that makes d a whole assignment.
TEST(QuotaLayer, DoesNotDriftOverAThousandMillionAssignments) {
  constexpr std::int64_t num_jumped = 1'000'000'007;
  for (const auto& assignments : std::vector<std::vector<std::int64_t>>{{7, 10}, {1, 20}, {31, 57}}) {
    const RoutingTable table = table_of(assignments);
    QuotaLayer layer;
    layer.build(table, layer0, Rank{0});
    layer.advance(expert0, num_jumped);
    // Credits after the jump, up to a whole number of assignments that either replica may be ahead.
    const auto whole = static_cast<std::int64_t>(RoutingTable::whole_share);
    const auto share =
        static_cast<std::int64_t>(RoutingTable::share_at(table.share_begins(layer0, expert0), 0));
    const std::int64_t fraction = (share * (num_jumped % whole)) % whole;
    bool fits_behind = true;
    bool fits_ahead = true;
    std::int64_t credit = fraction;
    for (int n = 0; n < 2000; ++n) {
      credit += share - (next_slot(layer) == SlotId{0} ? whole : 0);
      fits_behind = fits_behind && std::abs(credit) < whole;
      fits_ahead = fits_ahead && std::abs(credit - whole) < whole;
    }
    EXPECT_TRUE(fits_behind || fits_ahead);
  }
}

TEST(QuotaLayer, AdvancingIsTheSameAsDispatching) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::int64_t> assignments(1 + random() % 7);
    for (auto& count : assignments) count = 1 + static_cast<std::int64_t>(random() % 50);
    const RoutingTable table = table_of(assignments);
    QuotaLayer jumping;
    jumping.build(table, layer0, Rank{1});
    QuotaLayer walking = jumping;
    for (int jump = 0; jump < 5; ++jump) {
      const auto count = static_cast<std::int64_t>(random() % 700);
      jumping.advance(expert0, count);
      for (std::int64_t i = 0; i < count; ++i) next_slot(walking);
      for (int i = 0; i < 20; ++i) ASSERT_EQ(next_slot(jumping), next_slot(walking));
    }
  }
}

}  // namespace
}  // namespace trimtab::test
