// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/checksum.hpp>
#include <trimtab/route/router.hpp>
#include <trimtab/route/table_buffer.hpp>

#include "unit/route/tables.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

namespace trimtab::test {
namespace {

constexpr TableCapacity capacity{3, 5, 12};

/// Memory as an engine hands it over: aligned, full of whatever was there.
class EngineMemory {
 public:
  explicit EngineMemory(std::size_t size) : bytes_(size + table_buffer_alignment, std::byte{0xa5}) {}

  [[nodiscard]] std::span<std::byte> bytes() {
    void* begin = bytes_.data();
    std::size_t space = bytes_.size();
    const std::size_t size = bytes_.size() - table_buffer_alignment;
    return {static_cast<std::byte*>(std::align(table_buffer_alignment, size, begin, space)), size};
  }

 private:
  std::vector<std::byte> bytes_;
};

Topology topology() { return make_topology(4, 12); }

RoutingTable random_table(unsigned seed, TableIdentity identity, ModelRole model = ModelRole::target) {
  std::mt19937 random(seed);
  std::vector<std::vector<std::int32_t>> layers(2);
  std::vector<std::int64_t> assignments;
  for (auto& layer : layers) {
    layer = {0, 1, 2, 3};
    while (layer.size() < 12) layer.push_back(static_cast<std::int32_t>(random() % 5) - 1);
    std::shuffle(layer.begin(), layer.end(), random);
    for (int s = 0; s < 12; ++s) assignments.push_back(random() % 9);
  }
  return RoutingTable::compile(make_placement(4, layers), topology(), identity,
                               Split::make(2, 12, std::move(assignments)).value(), {.model = model})
      .value();
}

bool have_same_content(const RoutingTable& a, const RoutingTable& b) {
  return a.identity() == b.identity() && a.fingerprint() == b.fingerprint() &&
         std::ranges::equal(a.view().first, b.view().first) &&
         std::ranges::equal(a.view().slots, b.view().slots) &&
         std::ranges::equal(a.view().share_begins, b.view().share_begins);
}

class TableBufferTest : public testing::Test {
 protected:
  TableBufferTest() : memory_(table_buffer_layout(capacity).size) {}

  EngineMemory memory_;
  TableBuffer buffer_ = TableBuffer::make(memory_.bytes(), capacity).value();
};

TEST_F(TableBufferTest, HoldsNoTableAtFirst) {
  const auto read = read_table_buffer(memory_.bytes(), topology());
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Errc::not_found);
}

TEST_F(TableBufferTest, GivesBackWhatWasPublished) {
  for (std::uint32_t version = 0; version < 20; ++version) {
    const RoutingTable table = random_table(version, {Epoch{4}, version}, ModelRole::draft);
    ASSERT_TRUE(buffer_.publish_at_boundary(table));
    const auto read = read_table_buffer(memory_.bytes(), topology());
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_TRUE(have_same_content(*read, table));
    EXPECT_EQ(read->model(), ModelRole::draft);
  }
}

TEST_F(TableBufferTest, DispatchesLikeTheTableItself) {
  const RoutingTable table = random_table(3, {Epoch{1}, 0});
  ASSERT_TRUE(buffer_.publish_at_boundary(table));
  const RoutingTable read = read_table_buffer(memory_.bytes(), topology()).value();
  std::vector<ExpertId> experts;
  for (int i = 0; i < 400; ++i) experts.push_back(ExpertId{i * 7 % 4});
  for (const auto mode : {DispatchMode::nearest, DispatchMode::rank_invariant, DispatchMode::quota}) {
    Router one(2, 4, Rank{1}, {.mode = mode});
    Router other(2, 4, Rank{1}, {.mode = mode});
    std::vector<SlotId> a(experts.size());
    std::vector<SlotId> b(experts.size());
    ASSERT_TRUE(one.dispatch(table, LayerId{1}, experts, a));
    ASSERT_TRUE(other.dispatch(read, LayerId{1}, experts, b));
    EXPECT_EQ(a, b);
  }
}

// As a kernel would: nothing but the documented numbers, plain pointers and offsets.
TEST_F(TableBufferTest, AKernelReadsItByTheDocumentedLayout) {
  const RoutingTable table = random_table(5, {Epoch{9}, 2});
  ASSERT_TRUE(buffer_.publish_at_boundary(table));
  const auto* base = reinterpret_cast<const unsigned char*>(memory_.bytes().data());
  std::uint64_t head[16];
  std::memcpy(head, base, sizeof(head));
  ASSERT_EQ(head[0] % 2, 0U);
  EXPECT_EQ(head[1], 0x3130626274747274U);
  EXPECT_EQ(head[2], 9U);
  EXPECT_EQ(head[3], 2U);
  const std::uint64_t experts = head[9];
  const std::uint64_t slots = head[10];
  const auto up = [](std::uint64_t bytes) { return (bytes + 63) / 64 * 64; };
  const auto* first = reinterpret_cast<const std::uint32_t*>(base + 128);
  const auto* places = reinterpret_cast<const std::int32_t*>(base + 128 + up(head[8] * (experts + 1) * 4));
  const auto* begins = places + up(head[8] * slots * 4) / 4;
  std::size_t num_used = 0;
  for (std::uint64_t l = 0; l < head[5]; ++l) {
    for (std::uint64_t e = 0; e < head[6]; ++e) {
      const LayerId layer{static_cast<std::int32_t>(l)};
      const ExpertId expert{static_cast<std::int32_t>(e)};
      const auto replicas = table.replicas(layer, expert);
      const std::uint32_t begin = first[l * (experts + 1) + e];
      ASSERT_EQ(first[l * (experts + 1) + e + 1] - begin, replicas.size());
      for (std::size_t i = 0; i < replicas.size(); ++i, ++num_used) {
        EXPECT_EQ(places[begin + i], replicas[i].value());
        EXPECT_EQ(begins[begin + i], table.share_begins(layer, expert)[i]);
      }
    }
  }
  // All else is empty, however large the buffer is.
  EXPECT_EQ(static_cast<std::size_t>(std::count(places, places + head[8] * slots, -1)),
            head[8] * slots - num_used);
}

// R6: shapes and addresses of captured graphs stay; a smaller table leaves nothing of a larger one behind.
TEST_F(TableBufferTest, ASmallerTableLeavesNothingOfALargerOne) {
  ASSERT_TRUE(buffer_.publish_at_boundary(random_table(1, {Epoch{1}, 0})));
  const RoutingTable small = make_table(make_placement(2, {{1, 0}}), 2);
  ASSERT_TRUE(buffer_.publish_at_boundary(small));
  EngineMemory fresh(table_buffer_layout(capacity).size);
  TableBuffer once = TableBuffer::make(fresh.bytes(), capacity).value();
  ASSERT_TRUE(once.publish_at_boundary(small));
  const auto a = memory_.bytes().subspan(sizeof(std::uint64_t));
  const auto b = fresh.bytes().subspan(sizeof(std::uint64_t));
  EXPECT_TRUE(std::ranges::equal(a, b));
}

TEST_F(TableBufferTest, WritesNothingUnlessTheTableIsNewer) {
  ASSERT_TRUE(buffer_.publish_at_boundary(random_table(1, {Epoch{5}, 3})));
  const std::vector<std::byte> before(memory_.bytes().begin(), memory_.bytes().end());
  for (const TableIdentity identity : {TableIdentity{Epoch{5}, 3}, {Epoch{5}, 2}, {Epoch{4}, 9}}) {
    const Status status = buffer_.publish_at_boundary(random_table(2, identity));
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Errc::version_mismatch);
  }
  const Status other = buffer_.publish_at_boundary(random_table(2, {Epoch{6}, 0}, ModelRole::draft));
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().message, "routing table of the draft model for a buffer of another model");
  EXPECT_TRUE(std::ranges::equal(before, memory_.bytes()));
  EXPECT_TRUE(buffer_.publish_at_boundary(random_table(2, {Epoch{5}, 4})));
}

TEST_F(TableBufferTest, WritesNothingOfATableThatIsTooLarge) {
  const std::vector<std::byte> before(memory_.bytes().begin(), memory_.bytes().end());
  const auto refusal = [&](std::int32_t layers, std::int32_t slots, std::int32_t experts) {
    const Status status =
        buffer_.publish_at_boundary(make_table(Placement::identity(layers, slots, experts).value(), 1));
    return status ? "accepted" : status.error().message;
  };
  EXPECT_EQ(refusal(4, 12, 5), "routing table of 4 layers x 5 experts x 12 slots for a buffer of 3 x 5 x 12");
  EXPECT_EQ(refusal(3, 12, 6), "routing table of 3 layers x 6 experts x 12 slots for a buffer of 3 x 5 x 12");
  EXPECT_EQ(refusal(3, 13, 5), "routing table of 3 layers x 5 experts x 13 slots for a buffer of 3 x 5 x 12");
  EXPECT_TRUE(std::ranges::equal(before, memory_.bytes()));
  EXPECT_EQ(refusal(3, 12, 5), "accepted");
}

TEST_F(TableBufferTest, WaitsForReadersOfThePublishedTable) {
  TablePublisher publisher(random_table(1, {Epoch{1}, 0}));
  TableReader reader = publisher.make_reader();
  const std::vector<std::byte> before(memory_.bytes().begin(), memory_.bytes().end());
  {
    const TableLease lease = reader.acquire();
    const Status status = buffer_.publish(*lease, publisher);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Errc::unavailable);
    EXPECT_TRUE(std::ranges::equal(before, memory_.bytes()));
  }
  EXPECT_TRUE(buffer_.publish(random_table(1, {Epoch{1}, 0}), publisher));
}

TEST_F(TableBufferTest, AnyDamagedByteIsFound) {
  ASSERT_TRUE(buffer_.publish_at_boundary(random_table(7, {Epoch{1}, 0})));
  const auto bytes = memory_.bytes();
  const std::size_t end_of_head = offsetof(TableBufferHead, unused);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i >= end_of_head && i < sizeof(TableBufferHead)) continue;
    bytes[i] ^= std::byte{0x10};
    const auto read = read_table_buffer(bytes, topology());
    // The sequence may be any even number; what it says is only whether it changed.
    EXPECT_EQ(read.has_value(), i < sizeof(std::uint64_t)) << "byte " << i;
    bytes[i] ^= std::byte{0x10};
  }
  EXPECT_TRUE(read_table_buffer(bytes, topology()));
}

TEST_F(TableBufferTest, ATornTableIsFound) {
  ASSERT_TRUE(buffer_.publish_at_boundary(random_table(7, {Epoch{1}, 0})));
  const std::vector<std::byte> first(memory_.bytes().begin(), memory_.bytes().end());
  ASSERT_TRUE(buffer_.publish_at_boundary(random_table(8, {Epoch{2}, 0})));
  const auto bytes = memory_.bytes();
  const std::vector<std::byte> second(bytes.begin(), bytes.end());
  // Written up to a place, with the sequence of either.
  for (std::size_t cut = sizeof(std::uint64_t); cut < bytes.size(); ++cut) {
    const auto at = static_cast<std::ptrdiff_t>(cut);
    if (std::equal(first.begin() + at, first.end(), second.begin() + at)) break;
    if (std::equal(first.begin() + 8, first.begin() + at, second.begin() + 8)) continue;
    std::copy(first.begin() + at, first.end(), std::copy(second.begin(), second.begin() + at, bytes.begin()));
    EXPECT_FALSE(read_table_buffer(bytes, topology())) << cut;
  }
  std::ranges::copy(second, bytes.begin());
  bytes[0] ^= std::byte{1};
  const auto read = read_table_buffer(bytes, topology());
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().message, "table buffer: it is being written (sequence 5)");
}

// Damage under a checksum that fits: what it leads to must be seen all the same.
TEST_F(TableBufferTest, PlacesBeyondTheArraysAreRefused) {
  const RoutingTable table = random_table(7, {Epoch{1}, 0});
  const auto bytes = memory_.bytes();
  const auto* first = reinterpret_cast<std::uint32_t*>(bytes.data() + table_buffer_layout(capacity).first);
  for (const std::uint32_t wild : {25U, 37U, 1U << 30, 0xffffffffU}) {
    for (const std::size_t entry : {std::size_t{1}, std::size_t{4}, std::size_t{10}}) {
      buffer_ = TableBuffer::make(bytes, capacity).value();
      ASSERT_TRUE(buffer_.publish_at_boundary(table));
      ASSERT_LT(first[entry], 25U);
      std::memcpy(const_cast<std::uint32_t*>(first) + entry, &wild, sizeof(wild));
      TableBufferHead head;
      std::memcpy(&head, bytes.data(), sizeof(head));
      constexpr std::size_t named = offsetof(TableBufferHead, format);
      head.checksum =
          checksum_of(bytes.subspan(sizeof(head)),
                      checksum_of(bytes.subspan(named, offsetof(TableBufferHead, checksum) - named)));
      std::memcpy(bytes.data(), &head, sizeof(head));
      const auto read = read_table_buffer(bytes, topology());
      ASSERT_FALSE(read);
      EXPECT_NE(read.error().message.find("are not within"), std::string::npos) << read.error().message;
    }
  }
}

TEST_F(TableBufferTest, SlotsThatTheServiceDoesNotHaveAreRefused) {
  ASSERT_TRUE(buffer_.publish_at_boundary(random_table(7, {Epoch{1}, 0})));
  const auto smaller = read_table_buffer(memory_.bytes(), make_topology(2, 6));
  ASSERT_FALSE(smaller);
  EXPECT_EQ(smaller.error().code, Errc::corrupt);
  const auto dead = read_table_buffer(memory_.bytes(), make_topology(4, 12, {Rank{2}}));
  ASSERT_FALSE(dead);
  EXPECT_EQ(dead.error().code, Errc::corrupt);
}

TEST(TableBuffer, RefusesMemoryThatDoesNotFit) {
  const std::size_t size = table_buffer_layout(capacity).size;
  EngineMemory memory(size + table_buffer_alignment);
  const auto refusal = [&](std::span<std::byte> bytes, const TableCapacity& wanted) {
    const auto made = TableBuffer::make(bytes, wanted);
    return made ? "accepted" : made.error().message;
  };
  EXPECT_EQ(refusal(memory.bytes(), capacity), "accepted");
  EXPECT_EQ(refusal(memory.bytes().first(size - 1), capacity),
            std::to_string(size - 1) + " bytes for a table buffer of " + std::to_string(size));
  EXPECT_NE(refusal(memory.bytes().subspan(4), capacity).find("is not aligned to 64 bytes"),
            std::string::npos);
  EXPECT_EQ(refusal(memory.bytes(), {0, 5, 12}),
            "a buffer of 0 layers x 5 experts x 12 slots: each must be in 1..16777216");
}

TEST(TableBuffer, LayoutIsAPureFunctionOfCapacity) {
  constexpr TableBufferLayout layout = table_buffer_layout({61, 256, 320});
  static_assert(layout.first == 128 && layout.first % table_buffer_alignment == 0);
  static_assert(layout.slots % table_buffer_alignment == 0 &&
                layout.share_begins % table_buffer_alignment == 0);
  static_assert(layout.size <= 61 * (257 * 4 + 320 * 8) + 128 + 3 * 64);
}

template <class Int>
class LogicalMapsTest : public testing::Test {};
using Ints = testing::Types<std::int32_t, std::int64_t>;
TYPED_TEST_SUITE(LogicalMapsTest, Ints);

TYPED_TEST(LogicalMapsTest, ListsSlotsAndPadsWithMinusOne) {
  const RoutingTable table = make_table(make_placement(3, {{0, 1, 2, 0, -1, 1}, {2, 2, 1, 2, 0, 0}}), 1);
  std::vector<TypeParam> slots(2 * 3 * 4, 99);
  std::vector<TypeParam> num_valid(2 * 3, 99);
  ASSERT_TRUE(fill_logical_maps(table, LogicalMaps<TypeParam>{slots, num_valid, 4}));
  EXPECT_EQ(slots, (std::vector<TypeParam>{0, 3, -1, -1, 1, 5,  -1, -1, 2, -1, -1, -1,  //
                                           4, 5, -1, -1, 2, -1, -1, -1, 0, 1,  3,  -1}));
  EXPECT_EQ(num_valid, (std::vector<TypeParam>{2, 2, 1, 2, 1, 3}));
}

TYPED_TEST(LogicalMapsTest, WritesNothingWhenTheyDoNotFit) {
  const RoutingTable table = make_table(make_placement(3, {{0, 1, 2, 0, -1, 1}, {2, 2, 1, 2, 0, 0}}), 1);
  std::vector<TypeParam> slots(2 * 3 * 2, 99);
  std::vector<TypeParam> num_valid(2 * 3, 99);
  const Status narrow = fill_logical_maps(table, LogicalMaps<TypeParam>{slots, num_valid, 2});
  ASSERT_FALSE(narrow);
  EXPECT_EQ(narrow.error().message, "layer 1, expert 2: 3 slots for a map of width 2");
  const Status sizes = fill_logical_maps(table, LogicalMaps<TypeParam>{slots, num_valid, 3});
  ASSERT_FALSE(sizes);
  EXPECT_EQ(sizes.error().message, "maps of 12 slots and 6 counts for 2 layers x 3 experts x width 3");
  EXPECT_TRUE(std::ranges::all_of(slots, [](TypeParam slot) { return slot == 99; }));
  EXPECT_TRUE(std::ranges::all_of(num_valid, [](TypeParam count) { return count == 99; }));
}

}  // namespace
}  // namespace trimtab::test
