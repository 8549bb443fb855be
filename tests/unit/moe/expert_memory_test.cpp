// SPDX-License-Identifier: Apache-2.0
#include "moe/expert_memory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
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

}  // namespace
}  // namespace trimtab::moe
