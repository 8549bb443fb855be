// SPDX-License-Identifier: Apache-2.0
#include <trimtab/weights/expert_store.hpp>

#include "unit/weights/allocation_count.hpp"
#include "unit/weights/bundle_arena.hpp"

#include <gtest/gtest.h>

#include <set>

namespace trimtab::test {
namespace {

constexpr std::int32_t num_layers = 3;
constexpr IdRange<SlotId> rank_slots{SlotId{4}, SlotId{8}};  // The second rank's: slots do not begin at 0.
constexpr LayerId layer1{1};

/// Slot s of layer l holds expert s + 10.
ExpertId expert_in(SlotId slot) { return ExpertId{slot.value() + 10}; }

class ExpertStoreTest : public testing::Test {
 protected:
  ExpertStoreTest() : arena(num_layers, rank_slots), store(num_layers, rank_slots) {
    for (LayerId layer : ids<LayerId>(num_layers)) {
      EXPECT_TRUE(store.register_layer(layer, arena.tensors(layer)));
      for (SlotId slot : rank_slots) arena.fill(layer, slot, expert_in(slot));
    }
  }

  /// Whether every slot but one holds what it held at first, and no byte outside slots changed.
  void expect_untouched_but(LayerId changed_layer, SlotId changed_slot) {
    EXPECT_EQ(arena.num_damaged_guards(), 0U);
    for (LayerId layer : ids<LayerId>(num_layers)) {
      for (SlotId slot : rank_slots) {
        if (layer == changed_layer && slot == changed_slot) continue;
        EXPECT_TRUE(arena.holds(layer, slot, expert_in(slot))) << layer.value() << ", " << slot.value();
      }
    }
  }

  BundleArena arena;
  ExpertStore store;
};

TEST(ElementType, HasASize) {
  EXPECT_EQ(size_of(ElementType::int8), 1U);
  EXPECT_EQ(size_of(ElementType::uint8), 1U);
  EXPECT_EQ(size_of(ElementType::float16), 2U);
  EXPECT_EQ(size_of(ElementType::bfloat16), 2U);
  EXPECT_EQ(size_of(ElementType::int32), 4U);
  EXPECT_EQ(size_of(ElementType::float32), 4U);
}

// Ascend/sglang#603, vllm-project/vllm#47588: weights moved, their scales did not, or the reverse.
TEST_F(ExpertStoreTest, ReadsAllTensorsOfASlotOneAfterTheOther) {
  ASSERT_EQ(store.bundle_bytes(layer1), 9004U + 96 + 96 + 4096 + 52 + 52);
  for (SlotId slot : rank_slots) {
    std::vector<std::byte> bundle(store.bundle_bytes(layer1));
    store.read_bundle(layer1, slot, bundle);
    EXPECT_EQ(bundle, BundleArena::bundle_of(layer1, expert_in(slot)));
  }
  expect_untouched_but(LayerId{-1}, no_slot);
}

TEST_F(ExpertStoreTest, ExchangesAWholeBundleAndTouchesNothingElse) {
  const SlotId slot{6};
  std::vector<std::byte> bundle = BundleArena::bundle_of(layer1, ExpertId{77});
  store.exchange_bundle(layer1, slot, bundle);
  EXPECT_TRUE(arena.holds(layer1, slot, ExpertId{77}));
  EXPECT_EQ(bundle, BundleArena::bundle_of(layer1, expert_in(slot)));
  expect_untouched_but(layer1, slot);
}

// vllm-project/vllm-ascend#9151: a revert restored the placement, but not the weights.
TEST_F(ExpertStoreTest, ASecondExchangeRestoresBothSides) {
  const std::vector<std::byte> other = BundleArena::bundle_of(layer1, ExpertId{77});
  for (SlotId slot : rank_slots) {
    std::vector<std::byte> bundle = other;
    store.exchange_bundle(layer1, slot, bundle);
    store.exchange_bundle(layer1, slot, bundle);
    EXPECT_EQ(bundle, other);
  }
  expect_untouched_but(LayerId{-1}, no_slot);
}

TEST_F(ExpertStoreTest, ExchangingAllocatesNothing) {
  std::vector<std::byte> bundle = BundleArena::bundle_of(layer1, ExpertId{77});
  const std::size_t before = num_allocations();
  store.exchange_bundle(layer1, SlotId{4}, bundle);
  store.read_bundle(layer1, SlotId{5}, bundle);
  EXPECT_EQ(num_allocations(), before);
}

// sgl-project/sglang#6818, FastDeploy#4599: migrated tensors were no longer those that the kernels read.
TEST_F(ExpertStoreTest, AddressesAreThoseRegisteredBeforeAndAfterAnExchange) {
  std::vector<std::byte> bundle = BundleArena::bundle_of(layer1, ExpertId{77});
  for (int round = 0; round < 2; ++round) {
    for (std::size_t tensor = 0; tensor < w8a8_bundle.size(); ++tensor) {
      const TensorSpec& spec = arena.tensors(layer1)[tensor];
      EXPECT_EQ(store.tensors(layer1)[tensor].base, spec.base);
      for (SlotId slot : rank_slots) {
        const std::span<std::byte> memory = store.tensor_slot(layer1, tensor, slot);
        EXPECT_EQ(memory.data(), arena.address(spec, slot));
        EXPECT_EQ(memory.size(), spec.slot_bytes);
      }
    }
    store.exchange_bundle(layer1, SlotId{7}, bundle);
  }
}

TEST_F(ExpertStoreTest, ChecksumIsTheSameFromSlotAndStaging) {
  for (SlotId slot : rank_slots) {
    const std::uint64_t staged =
        ExpertStore::checksum(layer1, BundleArena::bundle_of(layer1, expert_in(slot)), expert_in(slot));
    EXPECT_EQ(store.checksum(layer1, slot, expert_in(slot)), staged);
  }
}

TEST_F(ExpertStoreTest, ChecksumIsBoundToLayerAndExpert) {
  const std::vector<std::byte> bundle = BundleArena::bundle_of(layer1, ExpertId{14});
  std::set<std::uint64_t> checksums;
  for (LayerId layer : ids<LayerId>(20)) {
    for (ExpertId expert : ids<ExpertId>(20)) checksums.insert(ExpertStore::checksum(layer, bundle, expert));
  }
  EXPECT_EQ(checksums.size(), 400U);
}

// vllm-project/vllm#47588, #48355: one tensor of the bundle was forgotten.
TEST_F(ExpertStoreTest, ChecksumSeesEveryTensorFromItsFirstByteToItsLast) {
  const SlotId slot{5};
  const std::uint64_t sound = store.checksum(layer1, slot, expert_in(slot));
  for (std::size_t tensor = 0; tensor < w8a8_bundle.size(); ++tensor) {
    const std::span<std::byte> memory = store.tensor_slot(layer1, tensor, slot);
    for (std::byte* byte : {&memory.front(), &memory[memory.size() / 2], &memory.back()}) {
      *byte ^= std::byte{1};
      EXPECT_NE(store.checksum(layer1, slot, expert_in(slot)), sound) << w8a8_bundle[tensor].name;
      *byte ^= std::byte{1};
    }
  }
  EXPECT_EQ(store.checksum(layer1, slot, expert_in(slot)), sound);
}

TEST_F(ExpertStoreTest, ChecksumDoesNotSeeGaps) {
  const SlotId slot{5};
  const std::uint64_t before = store.checksum(layer1, slot, expert_in(slot));
  for (const TensorSpec& spec : arena.tensors(layer1)) {
    std::memset(arena.address(spec, slot) + spec.slot_bytes, 0, BundleArena::gap_bytes);
  }
  EXPECT_EQ(store.checksum(layer1, slot, expert_in(slot)), before);
}

}  // namespace
}  // namespace trimtab::test
