// SPDX-License-Identifier: Apache-2.0
#include "moe/expert_memory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "moe/expert_buffer.hpp"

namespace trimtab::moe {
namespace {

const ModelConfig config{.num_layers = 2, .num_experts = 3, .top_k = 1, .hidden = 10, .intermediate = 6};
const IdRange<SlotId> slots{SlotId{2}, SlotId{5}};

Placement placement() {
  // Local slots 2..4: expert 2, vacant, expert 0; the other way round in layer 1.
  return *Placement::make(2, 5, 3,
                          {ExpertId{0}, ExpertId{1}, ExpertId{2}, no_expert, ExpertId{0},  //
                           ExpertId{1}, ExpertId{2}, ExpertId{0}, no_expert, ExpertId{2}});
}

TEST(ExpertMemory, HoldsWhatThePlacementNames) {
  ExpertMemory memory(config, slots);
  ASSERT_TRUE(memory.load(placement()).has_value());
  ExpertBuffer expected(config);
  for (const LayerId layer : ids<LayerId>(2)) {
    for (const SlotId slot : {SlotId{2}, SlotId{4}}) {
      generate_expert(config, layer, placement().expert_at(layer, slot), expected.bundle());
      const Bundle held = memory.bundle(layer, slot);
      EXPECT_TRUE(std::ranges::equal(held.w13, expected.bundle().w13));
      EXPECT_TRUE(std::ranges::equal(held.w2_offset, expected.bundle().w2_offset));
    }
    EXPECT_TRUE(std::ranges::all_of(memory.bundle(layer, SlotId{3}).w13, [](int q) { return q == 0; }));
  }
}

TEST(ExpertMemory, RefusesPlacementOfAnotherModel) {
  ExpertMemory memory(config, slots);
  const Status loaded = memory.load(*Placement::identity(1, 5, 3));
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error().code, Errc::invalid_argument);
}

// sgl-project/sglang#6818: the balancer moved tensors that the kernels no longer read.
TEST(ExpertMemory, RegistersTheAddressesThatAreRead) {
  ExpertMemory memory(config, slots);
  ASSERT_TRUE(memory.load(placement()).has_value());
  ExpertStore store(config.num_layers, slots);
  ASSERT_TRUE(memory.register_in(store).has_value());
  const ExpertMemory& reader = memory;
  for (const LayerId layer : ids<LayerId>(2)) {
    EXPECT_EQ(store.tensors(layer).size(), 6u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(store.tensors(layer)[0].base) % 4096, 0u);
    for (const SlotId slot : slots) {
      const ConstBundle read = reader.bundle(layer, slot);
      const auto same = [&](std::size_t tensor, auto view) {
        const auto registered = store.tensor_slot(layer, tensor, slot);
        EXPECT_EQ(registered.data(), std::as_bytes(view).data());
        EXPECT_EQ(registered.size(), view.size_bytes());
      };
      same(0, read.w13);
      same(1, read.w13_scale);
      same(2, read.w13_offset);
      same(3, read.w2);
      same(4, read.w2_scale);
      same(5, read.w2_offset);
    }
  }
}

TEST(ExpertMemory, ExchangedBundlesAreWhatIsReadNext) {
  ExpertMemory memory(config, slots);
  ASSERT_TRUE(memory.load(placement()).has_value());
  ExpertStore store(config.num_layers, slots);
  ASSERT_TRUE(memory.register_in(store).has_value());
  std::vector<std::byte> bundle(store.bundle_bytes(LayerId{0}));
  store.read_bundle(LayerId{0}, SlotId{4}, bundle);
  store.exchange_bundle(LayerId{0}, SlotId{3}, bundle);
  const Bundle from = memory.bundle(LayerId{0}, SlotId{4});
  const Bundle to = memory.bundle(LayerId{0}, SlotId{3});
  EXPECT_TRUE(std::ranges::equal(from.w13, to.w13));
  EXPECT_TRUE(std::ranges::equal(from.w2_scale, to.w2_scale));
}

TEST(ExpertMemory, HoldsMatricesInFractalNz) {
  ExpertMemory memory(config, slots, WeightLayout::nz);
  ASSERT_TRUE(memory.load(placement()).has_value());
  ExpertStore store(config.num_layers, slots);
  ASSERT_TRUE(memory.register_in(store).has_value());
  const std::span<const TensorSpec> tensors = store.tensors(LayerId{1});
  const Format nz = Format::fractal_nz;
  const Format formats[]{nz, Format::nd, Format::nd, nz, Format::nd, Format::nd};
  for (std::size_t i = 0; i < tensors.size(); ++i) EXPECT_EQ(tensors[i].layout.format, formats[i]) << i;
  EXPECT_GT(store.workspace_bytes(), 0u);
  // w13 is 12 rows of 10 bytes here: one block, and element (row, column) at row * 32 + column.
  ExpertBuffer expected(config);
  generate_expert(config, LayerId{1}, ExpertId{2}, expected.bundle());
  const std::byte* const stored = tensors[0].base + 2 * tensors[0].stride_bytes;
  for (std::size_t row = 0; row < 12; ++row) {
    for (std::size_t column = 0; column < 32; ++column) {
      const std::int8_t weight = column < 10 ? expected.bundle().w13[row * 10 + column] : std::int8_t{0};
      EXPECT_EQ(static_cast<std::int8_t>(stored[row * 32 + column]), weight) << row << ", " << column;
    }
  }
}

TEST(ExpertMemory, IsReadAlikeInEveryLayout) {
  ExpertMemory dense(config, slots);
  ExpertMemory nz(config, slots, WeightLayout::nz);
  ASSERT_TRUE(dense.load(placement()).has_value());
  ASSERT_TRUE(nz.load(placement()).has_value());
  ExpertBuffer scratch(config);
  ExpertBuffer unused(config);
  for (const LayerId layer : ids<LayerId>(2)) {
    for (const SlotId slot : slots) {
      const ConstBundle a = dense.read(layer, slot, unused);
      const ConstBundle b = nz.read(layer, slot, scratch);
      EXPECT_EQ(a.w13.data(), std::as_const(dense).bundle(layer, slot).w13.data());
      EXPECT_TRUE(std::ranges::equal(a.w13, b.w13));
      EXPECT_TRUE(std::ranges::equal(a.w13_scale, b.w13_scale));
      EXPECT_TRUE(std::ranges::equal(a.w13_offset, b.w13_offset));
      EXPECT_TRUE(std::ranges::equal(a.w2, b.w2));
      EXPECT_TRUE(std::ranges::equal(a.w2_scale, b.w2_scale));
      EXPECT_TRUE(std::ranges::equal(a.w2_offset, b.w2_offset));
    }
  }
}

TEST(ExpertMemory, ExchangedNzBundlesAreWhatIsReadNext) {
  ExpertMemory memory(config, slots, WeightLayout::nz);
  ASSERT_TRUE(memory.load(placement()).has_value());
  ExpertStore store(config.num_layers, slots);
  ASSERT_TRUE(memory.register_in(store).has_value());
  std::vector<std::byte> bundle(store.bundle_bytes(LayerId{0}));
  store.begin_layer(LayerId{0});
  store.read_bundle(LayerId{0}, SlotId{4}, bundle);
  store.exchange_bundle(LayerId{0}, SlotId{3}, bundle);
  store.end_layer(LayerId{0});
  ExpertBuffer expected(config);
  ExpertBuffer scratch(config);
  generate_expert(config, LayerId{0}, ExpertId{0}, expected.bundle());
  for (const SlotId slot : {SlotId{3}, SlotId{4}}) {
    const ConstBundle read = memory.read(LayerId{0}, slot, scratch);
    EXPECT_TRUE(std::ranges::equal(read.w13, expected.bundle().w13));
    EXPECT_TRUE(std::ranges::equal(read.w2, expected.bundle().w2));
    EXPECT_TRUE(std::ranges::equal(read.w2_scale, expected.bundle().w2_scale));
  }
}

// vllm-project/vllm#34646: scales stayed behind when weights moved.
TEST(ExpertMemory, CanLeaveScalesOutOnPurpose) {
  ExpertMemory memory(config, slots);
  ExpertStore store(config.num_layers, slots);
  ASSERT_TRUE(memory.register_in(store, RegisteredTensors::without_scales).has_value());
  std::vector<std::string> names;
  for (const TensorSpec& tensor : store.tensors(LayerId{0})) names.push_back(tensor.name);
  EXPECT_EQ(names, (std::vector<std::string>{"w13", "w13_offset", "w2", "w2_offset"}));
}

}  // namespace
}  // namespace trimtab::moe
