// SPDX-License-Identifier: Apache-2.0
#include <trimtab/weights/expert_store.hpp>

#include "unit/weights/bundle_arena.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

namespace trimtab::test {
namespace {

using Bundle = std::vector<TensorSpec>;

constexpr std::int32_t num_layers = 3;
constexpr IdRange<SlotId> rank_slots{SlotId{4}, SlotId{8}};
constexpr LayerId layer0{0};
constexpr LayerId layer1{1};

TensorSpec& find(Bundle& bundle, const std::string& name) {
  return *std::ranges::find(bundle, name, &TensorSpec::name);
}

/// Layer 0 is registered; layer 1 is tried.
class RegisterLayer : public testing::Test {
 protected:
  RegisterLayer()
      : arena(num_layers, rank_slots), store(num_layers, rank_slots), bundle(arena.tensors(layer1)) {
    EXPECT_TRUE(store.register_layer(layer0, arena.tensors(layer0)));
  }

  void expect_refused(LayerId layer, const std::string& beginning) {
    const Status status = store.register_layer(layer, bundle);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Errc::invalid_argument);
    EXPECT_EQ(status.error().message.substr(0, beginning.size()), beginning);
    EXPECT_EQ(store.tensors(layer0).size(), w8a8_bundle.size());
    EXPECT_TRUE(store.tensors(layer1).empty());
    EXPECT_EQ(store.bundle_bytes(layer1), 0U);
    EXPECT_TRUE(store.register_layer(layer1, arena.tensors(layer1)));  // Nothing of the refused is left.
  }

  BundleArena arena;
  ExpertStore store;
  Bundle bundle;
};

TEST_F(RegisterLayer, KeepsTheOrderGiven) {
  ASSERT_TRUE(store.register_layer(layer1, bundle));
  ASSERT_EQ(store.tensors(layer1).size(), 6U);
  for (std::size_t tensor = 0; tensor < 6; ++tensor) {
    EXPECT_EQ(store.tensors(layer1)[tensor].name, w8a8_bundle[tensor].name);
  }
}

TEST_F(RegisterLayer, KnowsWhatIsNotRegistered) {
  EXPECT_EQ(store.num_layers(), 3);
  EXPECT_EQ(store.slots().size(), 4U);
  for (LayerId layer : {LayerId{2}, LayerId{3}, LayerId{-1}}) {
    EXPECT_TRUE(store.tensors(layer).empty());
    EXPECT_EQ(store.bundle_bytes(layer), 0U);
  }
}

TEST_F(RegisterLayer, RefusesNoTensors) {
  bundle.clear();
  expect_refused(layer1, "layer 1: no tensors");
}

TEST_F(RegisterLayer, RefusesALayerOutOfRange) {
  expect_refused(LayerId{3}, "layer 3, tensor w13: the layer is not in 0..2");
}

TEST_F(RegisterLayer, RefusesANegativeLayer) {
  expect_refused(LayerId{-1}, "layer -1, tensor w13: the layer is not in 0..2");
}

TEST_F(RegisterLayer, RefusesALayerRegisteredAlready) {
  expect_refused(layer0, "layer 0, tensor w13: the layer is registered already");
}

TEST_F(RegisterLayer, RefusesANullBase) {
  find(bundle, "w2_scale").base = nullptr;
  expect_refused(layer1, "layer 1, tensor w2_scale: null base");
}

TEST_F(RegisterLayer, RefusesAnEmptySlot) {
  find(bundle, "w2_offset").slot_bytes = 0;
  expect_refused(layer1, "layer 1, tensor w2_offset: empty slot of 0 bytes");
}

// vllm-project/vllm#34646, #37217: broadcast scales have stride 0, so that moving one expert's moves all.
TEST_F(RegisterLayer, RefusesStrideZero) {
  find(bundle, "w13_scale").stride_bytes = 0;
  expect_refused(layer1,
                 "layer 1, tensor w13_scale: stride of 0 bytes < slot of 96 bytes: slots share memory");
}

TEST_F(RegisterLayer, RefusesSlotsThatOverlapEachOther) {
  find(bundle, "w2").stride_bytes = 4095;
  expect_refused(layer1, "layer 1, tensor w2: stride of 4095 bytes < slot of 4096 bytes: slots share memory");
}

TEST_F(RegisterLayer, RefusesASlotOfBrokenElements) {
  find(bundle, "w13_offset").slot_bytes = 94;
  expect_refused(layer1, "layer 1, tensor w13_offset: slot of 94 bytes is no multiple of the element size 4");
}

TEST_F(RegisterLayer, RefusesAMisalignedBase) {
  find(bundle, "w2_scale").base += 2;
  expect_refused(layer1, "layer 1, tensor w2_scale: base 0x");
}

TEST_F(RegisterLayer, RefusesAMisalignedStride) {
  find(bundle, "w2_scale").stride_bytes += 2;
  expect_refused(layer1, "layer 1, tensor w2_scale: stride of 66 bytes is not aligned to the element size 4");
}

TEST_F(RegisterLayer, AllowsAnyAlignmentOfBytes) {
  TensorSpec& weights = find(bundle, "w13");
  weights.base += 1;
  weights.slot_bytes -= 3;
  weights.stride_bytes -= 1;
  EXPECT_TRUE(store.register_layer(layer1, bundle));
}

TEST_F(RegisterLayer, RefusesAnotherSlotCount) {
  find(bundle, "w2").num_slots = 5;
  expect_refused(layer1, "layer 1, tensor w2: 5 slots, but the store has 4");
}

TEST_F(RegisterLayer, RefusesANegativeSlotCount) {
  find(bundle, "w2").num_slots = -4;
  expect_refused(layer1, "layer 1, tensor w2: -4 slots, but the store has 4");
}

TEST_F(RegisterLayer, RefusesAnExtentBeyondTheAddressSpace) {
  find(bundle, "w2").stride_bytes = std::numeric_limits<std::size_t>::max() / 2;
  expect_refused(layer1, "layer 1, tensor w2: 4 slots of stride 9223372036854775807 bytes from 0x");
}

TEST_F(RegisterLayer, RefusesASlotBeyondTheAddressSpace) {
  find(bundle, "w2").slot_bytes = std::numeric_limits<std::size_t>::max();
  find(bundle, "w2").stride_bytes = std::numeric_limits<std::size_t>::max();
  expect_refused(layer1, "layer 1, tensor w2: 4 slots of stride 18446744073709551615 bytes from 0x");
}

/// A message about overlap names both tensors; the addresses between differ from run to run.
class RegisterLayerOverlap : public RegisterLayer {
 protected:
  void expect_overlap(const std::string& refused, const std::string& other) {
    const Status status = store.register_layer(layer1, bundle);
    ASSERT_FALSE(status);
    EXPECT_NE(status.error().message.find(" overlaps " + other + " at 0x"), std::string::npos)
        << status.error().message;
    expect_refused(layer1, "layer 1, " + refused + ": memory 0x");
  }
};

TEST_F(RegisterLayerOverlap, RefusesTheSameMemoryTwiceInABundle) {
  find(bundle, "w2_scale").base = find(bundle, "w13_scale").base;
  expect_overlap("tensor w2_scale", "tensor w13_scale of layer 1");
}

TEST_F(RegisterLayerOverlap, BlamesTheLaterTensorThoughItLiesBelow) {
  TensorSpec& scale = find(bundle, "w2_scale");
  scale.base = find(bundle, "w13_scale").base - 4;
  expect_overlap("tensor w2_scale", "tensor w13_scale of layer 1");
}

TEST_F(RegisterLayerOverlap, RefusesOneByteSharedWithAnotherLayer) {
  const TensorSpec& last = arena.tensors(layer0)[3];  // w2, bytes: no alignment in the way.
  find(bundle, "w2").base = last.base + 3 * last.stride_bytes + last.slot_bytes - 1;
  find(bundle, "w2").slot_bytes = 16;
  find(bundle, "w2").stride_bytes = 16;
  expect_overlap("tensor w2", "tensor w2 of layer 0");
}

TEST_F(RegisterLayerOverlap, RefusesATensorInsideALargerOne) {
  TensorSpec& scale = find(bundle, "w2_scale");
  scale.base = arena.tensors(layer0)[0].base + 4096;
  expect_overlap("tensor w2_scale", "tensor w13 of layer 0");
}

// The rule is by whole extents: a tensor in the gaps of another is refused though no payload byte is shared.
TEST_F(RegisterLayerOverlap, RefusesInterleavedSlots) {
  const TensorSpec& host = arena.tensors(layer0)[0];
  TensorSpec& scale = find(bundle, "w13_scale");
  scale.base = host.base + host.slot_bytes;
  scale.slot_bytes = BundleArena::gap_bytes;
  scale.stride_bytes = host.stride_bytes;
  expect_overlap("tensor w13_scale", "tensor w13 of layer 0");
}

TEST_F(RegisterLayer, AllowsTensorsThatTouch) {
  std::vector<std::byte> memory(4 * 64);
  bundle.resize(2);
  for (std::size_t tensor = 0; tensor < 2; ++tensor) {
    bundle[tensor].type = ElementType::int8;
    bundle[tensor].base = memory.data() + tensor * 4 * 32;
    bundle[tensor].slot_bytes = 32;
    bundle[tensor].stride_bytes = 32;
  }
  EXPECT_TRUE(store.register_layer(layer1, bundle));
}

TEST(RegisterLayerOfAnEmptyRank, AcceptsTensorsWithoutSlots) {
  ExpertStore store(1, {SlotId{3}, SlotId{3}});
  std::byte memory{};
  Bundle bundle(2);
  bundle[0].name = "w13";
  bundle[1].name = "w2";
  for (TensorSpec& spec : bundle) {
    spec.base = &memory;
    spec.slot_bytes = 8;
    spec.stride_bytes = 8;
  }
  EXPECT_TRUE(store.register_layer(layer0, bundle));
}

}  // namespace
}  // namespace trimtab::test
