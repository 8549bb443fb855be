// SPDX-License-Identifier: Apache-2.0
#include "support/cluster.hpp"
#include "verify/expert_values.hpp"
#include "verify/layout_weights.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace trimtab::test {
namespace {

using verify::Arrangement;
using verify::BundleShape;
using verify::expert_byte;
using verify::LayoutWeights;

constexpr LayerId layer{0};
constexpr IdRange<SlotId> slots{SlotId{4}, SlotId{8}};
const BundleShape shape{{"w13", ElementType::int8, 100, 50},
                        {"scale", ElementType::float32, 1, 20},
                        {"w2", ElementType::bfloat16, 40, 30}};
constexpr std::size_t of_a_slot = 100 * 50 + 40 * 60;

Placement holding_their_numbers() { return *Placement::identity(1, 8, 8); }

class SlotConversion : public testing::TestWithParam<Arrangement> {
 protected:
  SlotConversion()
      : weights({.layers = {&shape, 1}, .arrangement = GetParam()}, slots), store(weights.store()) {
    weights.fill(holding_their_numbers());
    store.open_layer(layer);
  }
  ~SlotConversion() override { store.end_layer(layer); }

  [[nodiscard]] bool holds_its_expert(SlotId slot) const {
    for (std::size_t t = 0; t < shape.size(); ++t) {
      const auto found = store.tensor_payload(layer, t, slot);
      for (std::size_t i = 0; i < found.size(); ++i) {
        if (found[i] != expert_byte(layer, ExpertId{slot.value()}, t, i)) return false;
      }
    }
    return true;
  }

  LayoutWeights weights;
  ExpertStore& store;
};

TEST_P(SlotConversion, TakesNoMoreAtATimeThanItMay) {
  for (const std::size_t most : {60U, 799U, 800U, 801U, 5010U, 7399U}) {
    store.end_layer(layer);
    store.open_layer(layer);
    const std::uint64_t before = store.bytes_converted();
    std::uint64_t now = before;
    for (bool is_there = false; !is_there;) {
      EXPECT_FALSE(store.is_converted(layer, SlotId{6}));
      is_there = store.convert_slot(layer, SlotId{6}, most);
      EXPECT_LE(store.bytes_converted() - now, most);
      ASSERT_GT(store.bytes_converted(), now);
      now = store.bytes_converted();
    }
    EXPECT_EQ(now - before, of_a_slot);
    EXPECT_TRUE(holds_its_expert(SlotId{6})) << most;
  }
}

TEST_P(SlotConversion, TakesARowHoweverLittleItMay) {
  EXPECT_FALSE(store.convert_slot(layer, SlotId{5}, 0));
  EXPECT_EQ(store.bytes_converted(), 50U);
  EXPECT_FALSE(store.convert_slot(layer, SlotId{5}, 1));
  EXPECT_EQ(store.bytes_converted(), 100U);
}

TEST_P(SlotConversion, LeavesOtherSlotsWhereTheyAre) {
  EXPECT_TRUE(store.convert_slot(layer, SlotId{5}, of_a_slot));
  EXPECT_TRUE(store.is_converted(layer, SlotId{5}));
  for (const SlotId slot : {SlotId{4}, SlotId{6}, SlotId{7}}) EXPECT_FALSE(store.is_converted(layer, slot));
  EXPECT_TRUE(store.convert_slot(layer, SlotId{4}, of_a_slot));
  EXPECT_EQ(store.bytes_converted(), 2 * of_a_slot);
  EXPECT_TRUE(holds_its_expert(SlotId{4}) && holds_its_expert(SlotId{5}));
}

TEST_P(SlotConversion, IsUndoneByTheEndOfTheLayer) {
  EXPECT_TRUE(store.convert_slot(layer, SlotId{5}, of_a_slot));
  store.end_layer(layer);
  EXPECT_FALSE(store.is_converted(layer, SlotId{5}));
  EXPECT_EQ(store.bytes_converted(), of_a_slot);  // Nothing to write back.
  store.open_layer(layer);
  EXPECT_FALSE(store.is_converted(layer, SlotId{5}));
}

TEST_P(SlotConversion, BringsBackOnlySlotsThatChanged) {
  const TensorSpec& w13 = store.tensors(layer)[0];
  std::vector<std::byte> bundle(store.bundle_bytes(layer));
  EXPECT_TRUE(store.convert_slot(layer, SlotId{5}, of_a_slot));
  EXPECT_TRUE(store.convert_slot(layer, SlotId{6}, of_a_slot));
  store.exchange_bundle(layer, SlotId{6}, bundle);
  w13.base[w13.stride_bytes] ^= std::byte{1};  // Slot 5, behind the workspace's back.
  const std::byte as_left = w13.base[w13.stride_bytes];
  store.end_layer(layer);
  EXPECT_EQ(store.bytes_converted(), 3 * of_a_slot);
  EXPECT_EQ(w13.base[w13.stride_bytes], as_left);
  EXPECT_EQ(w13.base[2 * w13.stride_bytes], std::byte{0});
  store.open_layer(layer);
}

INSTANTIATE_TEST_SUITE_P(OfHostMemory, SlotConversion,
                         testing::Values(Arrangement::nz, Arrangement::padded_rows), [](const auto& tested) {
                           return tested.param == Arrangement::nz ? "Nz" : "PaddedRows";
                         });

/// Device storage of four slots of one row of blocks, that counts how often it is used.
struct CountingStorage final : WholeStorage {
  std::vector<std::byte> memory = std::vector<std::byte>(4 * 512);
  int num_reads = 0;

  [[nodiscard]] StorageIdentity identity() const noexcept override {
    return {memory.data(), Format::fractal_nz};
  }
  void read(std::span<std::byte> nd) noexcept override {
    ++num_reads;
    std::iota(reinterpret_cast<unsigned char*>(nd.data()),
              reinterpret_cast<unsigned char*>(nd.data() + nd.size()), static_cast<unsigned char>(num_reads));
  }
  void write(std::span<const std::byte> /*nd*/) noexcept override {}
};

TEST(SlotConversionOfWholeStorages, ReadsEachOnceAndAloneForAllSlots) {
  CountingStorage first;
  CountingStorage second;
  const auto spec_of = [](const char* name, CountingStorage& storage) {
    return TensorSpec{.name = name,
                      .base = storage.memory.data(),
                      .num_slots = 4,
                      .slot_bytes = 512,
                      .stride_bytes = 512,
                      .layout = {.format = Format::fractal_nz, .rows = 16},
                      .storage = &storage};
  };
  ExpertStore store(1, slots);
  ASSERT_TRUE(store.register_layer(layer, std::vector{spec_of("w13", first), spec_of("w2", second)}));
  store.open_layer(layer);
  EXPECT_FALSE(store.convert_slot(layer, SlotId{7}, std::size_t{1} << 30));
  EXPECT_EQ(first.num_reads + second.num_reads, 1);
  EXPECT_TRUE(store.convert_slot(layer, SlotId{7}, 1));
  EXPECT_TRUE(store.convert_slot(layer, SlotId{4}, 1));
  EXPECT_EQ(store.tensor_payload(layer, 1, SlotId{4})[0], std::byte{1});
  store.end_layer(layer);
  EXPECT_EQ(first.num_reads, 1);
  EXPECT_EQ(second.num_reads, 1);
  store.open_layer(layer);
  EXPECT_FALSE(store.convert_slot(layer, SlotId{4}, 1));
  EXPECT_EQ(first.num_reads, 2);
  store.end_layer(layer);
}

}  // namespace
}  // namespace trimtab::test
