// SPDX-License-Identifier: Apache-2.0
#include "support/cluster.hpp"
#include "verify/expert_values.hpp"
#include "verify/layout_weights.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace trimtab::test {
namespace {

using verify::all_arrangements;
using verify::Arrangement;
using verify::expert_byte;
using verify::LayoutWeights;
using verify::PoisoningStorage;

constexpr std::int32_t num_layers = 4;
constexpr IdRange<SlotId> rank_slots{SlotId{4}, SlotId{8}};
constexpr LayerId layer0{0};

constexpr ExpertId other{1};

/// Slot s of every layer holds expert s, but for slot 6 of `changed`: that holds `other`.
Placement holding(LayerId changed = LayerId{-1}) {
  std::vector<ExpertId> map;
  for (LayerId layer : ids<LayerId>(num_layers)) {
    for (std::int32_t s : {0, 1, 2, 3, 4, 5, 6, 7, 6}) map.push_back(ExpertId{s});
    if (layer == changed) map[map.size() - 3] = other;
  }
  return *Placement::make(num_layers, 9, 8, std::move(map));
}

std::vector<std::byte> bundle_of(const ExpertStore& store, LayerId layer, ExpertId expert) {
  std::vector<std::byte> bundle;
  for (std::size_t t = 0; t < store.tensors(layer).size(); ++t) {
    for (std::size_t i = 0; i < store.tensors(layer)[t].slot_bytes; ++i) {
      bundle.push_back(expert_byte(layer, expert, t, i));
    }
  }
  return bundle;
}

class Layouts : public testing::TestWithParam<Arrangement> {
 protected:
  Layouts() : weights(num_layers, rank_slots, GetParam()), store(weights.store()) { weights.fill(holding()); }

  LayoutWeights weights;
  ExpertStore& store;
};

TEST_P(Layouts, ReadRowsWithoutGapsOrPadding) {
  for (LayerId layer : ids<LayerId>(num_layers)) {
    store.begin_layer(layer);
    for (SlotId slot : rank_slots) {
      std::vector<std::byte> bundle(store.bundle_bytes(layer));
      store.read_bundle(layer, slot, bundle);
      EXPECT_EQ(bundle, bundle_of(store, layer, ExpertId{slot.value()}));
    }
    store.end_layer(layer);
  }
  EXPECT_EQ(weights.find_difference(holding()), "");
  EXPECT_EQ(weights.num_whole_writes(), 0);  // Read only: nothing to write back.
}

// sgl-project/sglang#17676: EPLB over one NZ tensor gave wrong text.
TEST_P(Layouts, ExchangeOneSlotAndTouchNothingElse) {
  for (LayerId layer : ids<LayerId>(num_layers)) {
    std::vector<std::byte> bundle = bundle_of(store, layer, other);
    store.begin_layer(layer);
    store.exchange_bundle(layer, SlotId{6}, bundle);
    store.end_layer(layer);
    EXPECT_EQ(bundle, bundle_of(store, layer, ExpertId{6}));
    EXPECT_EQ(weights.find_difference(holding(layer)), "");
    store.begin_layer(layer);
    store.exchange_bundle(layer, SlotId{6}, bundle);
    store.end_layer(layer);
    EXPECT_EQ(weights.find_difference(holding()), "");
  }
}

TEST_P(Layouts, GiveTheSameChecksumFromSlotAndStaging) {
  for (LayerId layer : ids<LayerId>(num_layers)) {
    store.begin_layer(layer);
    for (SlotId slot : rank_slots) {
      const ExpertId expert{slot.value()};
      EXPECT_EQ(store.checksum(layer, slot, expert),
                ExpertStore::checksum(layer, bundle_of(store, layer, expert), expert));
    }
    store.end_layer(layer);
  }
}

// FastDeploy#4599: a tensor was replaced, so that graphs read an address of the past.
TEST_P(Layouts, KeepAddressesAndFormatTags) {
  const std::uint64_t before = store.fingerprint();
  for (LayerId layer : ids<LayerId>(num_layers)) {
    std::vector<std::byte> bundle = bundle_of(store, layer, other);
    store.begin_layer(layer);
    store.exchange_bundle(layer, SlotId{6}, bundle);
    store.end_layer(layer);
    EXPECT_EQ(store.fingerprint(), before);
  }
}

TEST_P(Layouts, AreNoMatterOfTheBundle) {
  LayoutWeights dense(num_layers, rank_slots, Arrangement::dense);
  EXPECT_EQ(store.bundle_hash(), dense.store().bundle_hash());
  for (LayerId layer : ids<LayerId>(num_layers)) {
    EXPECT_EQ(store.bundle_bytes(layer), dense.store().bundle_bytes(layer));
  }
}

TEST_P(Layouts, ReuseWorkspacesForAllLayers) {
  LayoutWeights deeper(3 * num_layers, rank_slots, GetParam());
  const bool is_addressable = GetParam() == Arrangement::dense || GetParam() == Arrangement::padded_slots;
  EXPECT_EQ(store.workspace_bytes() == 0, is_addressable);
  if (GetParam() == Arrangement::mixed) return;  // There the tensor that lies so differs from layer to layer.
  EXPECT_EQ(deeper.store().workspace_bytes(), store.workspace_bytes());
}

INSTANTIATE_TEST_SUITE_P(All, Layouts, testing::ValuesIn(all_arrangements));

TEST(NzLayout, HasOneWorkspaceForEachShape) {
  LayoutWeights host(num_layers, rank_slots, Arrangement::nz);
  LayoutWeights device(num_layers, rank_slots, Arrangement::poisoning_nz);
  const std::size_t first = 20 * 50 + 17 * 24 * 2;
  const std::size_t second = 2 * 33 * 31 + 33 * 2;  // Two tensors of one shape are needed at once.
  const std::size_t third = 5 * 9 * 4 + 16 * 32 * 2;
  EXPECT_EQ(host.store().workspace_bytes(), 4 * (first + second + third));
  EXPECT_EQ(device.store().workspace_bytes(), (4 + 2) * (first + second + third));  // With fused experts.
}

TEST(NzLayout, StaysInServiceUntilTheLayerIsEnded) {
  for (const Arrangement arrangement : {Arrangement::nz, Arrangement::poisoning_nz}) {
    LayoutWeights weights(num_layers, rank_slots, arrangement, 0);
    weights.fill(holding());
    ExpertStore& store = weights.store();
    const TensorSpec& w13 = store.tensors(layer0)[0];
    const std::vector<std::byte> before(w13.base, w13.base + 4 * w13.stride_bytes);
    std::vector<std::byte> bundle = bundle_of(store, layer0, other);
    store.begin_layer(layer0);
    store.exchange_bundle(layer0, SlotId{6}, bundle);
    EXPECT_TRUE(std::ranges::equal(before, std::span(w13.base, before.size())));
    store.end_layer(layer0);
    EXPECT_FALSE(std::ranges::equal(before, std::span(w13.base, before.size())));
  }
}

TEST(NzLayout, IsWrittenBackOnceHoweverManySlotsChanged) {
  LayoutWeights weights(num_layers, rank_slots, Arrangement::poisoning_nz);
  weights.fill(holding());
  ExpertStore& store = weights.store();
  store.begin_layer(layer0);
  for (SlotId slot : rank_slots) {
    std::vector<std::byte> bundle = bundle_of(store, layer0, ExpertId{slot.value() + 20});
    store.exchange_bundle(layer0, slot, bundle);
  }
  store.end_layer(layer0);
  EXPECT_EQ(weights.num_whole_writes(), 2);  // w13 and w2; scales lie dense.
}

// sgl-project/sglang#29424: a slice of internal format does not stand alone.
TEST(NzLayout, DamagesNeighboursWhenASliceIsWritten) {
  LayoutWeights weights(num_layers, rank_slots, Arrangement::poisoning_nz);
  weights.fill(holding());
  const TensorSpec& w13 = weights.store().tensors(layer0)[0];
  w13.base[w13.stride_bytes] ^= std::byte{1};
  EXPECT_EQ(weights.find_difference(holding()), "layer 0, tensor w13: a slice was written");
  EXPECT_EQ(w13.base[0], PoisoningStorage::poison);
  EXPECT_NE(weights.find_difference(holding()), "");
}

TEST(PaddedRows, AreWrittenBackOnlyInSlotsThatChanged) {
  LayoutWeights weights(1, rank_slots, Arrangement::padded_rows);
  ExpertStore& store = weights.store();
  const TensorSpec& w13 = store.tensors(layer0)[0];
  std::vector<std::byte> bundle(store.bundle_bytes(layer0));
  store.begin_layer(layer0);
  store.exchange_bundle(layer0, SlotId{6}, bundle);
  w13.base[0] = std::byte{42};  // Slot 4, behind the workspace's back.
  store.end_layer(layer0);
  EXPECT_EQ(w13.base[0], std::byte{42});
  EXPECT_EQ(w13.base[2 * w13.stride_bytes], std::byte{0});
}

TEST(Workspaces, BelongToOneUserAtATime) {
  ExpertStore store(1, rank_slots);
  EXPECT_TRUE(store.try_acquire_workspaces());
  EXPECT_FALSE(store.try_acquire_workspaces());
  store.release_workspaces();
  EXPECT_TRUE(store.try_acquire_workspaces());
}

/// A device's storage that can be told to break its promise.
struct MovableStorage final : WholeStorage {
  StorageIdentity now;
  [[nodiscard]] StorageIdentity identity() const noexcept override { return now; }
  void read(std::span<std::byte> /*nd*/) noexcept override {}
  void write(std::span<const std::byte> /*nd*/) noexcept override {}
};

TEST(Fingerprint, ShowsAStorageThatMovedOrChangedItsFormat) {
  std::vector<std::byte> memory(4 * 512);
  MovableStorage storage;
  storage.now = {memory.data(), Format::fractal_nz};
  const TensorSpec spec{.name = "w13",
                        .base = memory.data(),
                        .num_slots = 4,
                        .slot_bytes = 512,
                        .stride_bytes = 512,
                        .layout = {.format = Format::fractal_nz, .rows = 16},
                        .storage = &storage};
  ExpertStore store(1, rank_slots);
  ASSERT_TRUE(store.register_layer(layer0, std::vector{spec}));
  const std::uint64_t registered = store.fingerprint();
  storage.now.base += 512;
  EXPECT_NE(store.fingerprint(), registered);
  storage.now = {memory.data(), Format::nd};
  EXPECT_NE(store.fingerprint(), registered);
  storage.now = {memory.data(), Format::fractal_nz};
  EXPECT_EQ(store.fingerprint(), registered);
}

TEST(BundleHash, DependsOnNamesTypesSizesAndOrder) {
  std::vector<std::byte> memory(1024);
  const auto hash = [&](const std::string& name, ElementType type, std::size_t size, bool is_first) {
    std::vector<TensorSpec> bundle(2);
    bundle[0] = {name, type, memory.data(), 4, size, size};
    bundle[1] = {"b", ElementType::int8, memory.data() + 512, 4, 8, 8};
    if (!is_first) std::swap(bundle[0], bundle[1]);
    ExpertStore store(1, rank_slots);
    EXPECT_TRUE(store.register_layer(layer0, bundle));
    return store.bundle_hash();
  };
  const std::uint64_t plain = hash("a", ElementType::int8, 8, true);
  EXPECT_EQ(hash("a", ElementType::int8, 8, true), plain);
  EXPECT_NE(hash("c", ElementType::int8, 8, true), plain);
  EXPECT_NE(hash("a", ElementType::uint8, 8, true), plain);
  EXPECT_NE(hash("a", ElementType::int8, 12, true), plain);
  EXPECT_NE(hash("a", ElementType::int8, 8, false), plain);
}

}  // namespace
}  // namespace trimtab::test
