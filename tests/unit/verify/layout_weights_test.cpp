// SPDX-License-Identifier: Apache-2.0
#include "verify/layout_weights.hpp"

#include "support/placements.hpp"

#include <gtest/gtest.h>

#include <ostream>
#include <set>

namespace trimtab::verify {
/// For the names of tests.
static void PrintTo(Arrangement value, std::ostream* out) { *out << to_string(value); }
}  // namespace trimtab::verify

namespace trimtab::verify {
namespace {

constexpr IdRange<SlotId> slots{SlotId{2}, SlotId{5}};
const Placement placement = test::one_layer(4, {0, 1, 2, -1, 3, 1});
const BundleShape bundle{{"w", ElementType::int8, 17, 33}, {"w_scale", ElementType::float32, 1, 3}};

/// Every byte that belongs to the tensor, wherever it lies: made wrong, found, put right.
class Planted : public testing::TestWithParam<Arrangement> {
 protected:
  Planted()
      : weights({.layers = std::span(&bundle, 1), .arrangement = GetParam(), .num_fused = 1}, slots),
        contents(SlotContents::with_marked_vacancies(placement, slots)) {
    weights.fill(contents);
  }

  LayoutWeights weights;
  SlotContents contents;
};

/// Where a byte can be planted: in a device's storage it would be a slice.
class PlantedBytes : public Planted {};

TEST_P(Planted, NothingIsWrongAtFirst) {
  EXPECT_FALSE(weights.first_difference(contents));
  EXPECT_EQ(weights.find_difference(placement), "");
}

TEST_P(PlantedBytes, AreFoundInEveryRegionAndNamed) {
  std::set<Region> regions;
  for (const TensorSpec& tensor : weights.store().tensors(LayerId{0})) {
    const auto size =
        static_cast<std::ptrdiff_t>(4 * tensor.stride_bytes);  // Three slots and a fused expert.
    for (std::ptrdiff_t at = -32; at < size + 32; ++at) {
      tensor.base[at] ^= std::byte{0x10};
      const auto found = weights.first_difference(contents);
      ASSERT_TRUE(found) << tensor.name << ", byte " << at;
      EXPECT_EQ(found->tensor, tensor.name);
      EXPECT_EQ(found->found, found->expected ^ std::byte{0x10});
      const bool is_inside = at >= 0 && at < size;
      const auto index = static_cast<std::int32_t>(at / static_cast<std::ptrdiff_t>(tensor.stride_bytes));
      EXPECT_EQ(found->slot, is_inside && index < 3 ? SlotId{2 + index} : no_slot) << at;
      EXPECT_EQ(found->region == Region::guard, !is_inside) << at;
      regions.insert(found->region);
      tensor.base[at] ^= std::byte{0x10};
    }
  }
  const bool has_gaps = GetParam() != Arrangement::dense;
  EXPECT_EQ(regions.size(), has_gaps ? 4U : 3U);
  EXPECT_FALSE(weights.first_difference(contents));
}

TEST_P(Planted, AnotherExpertIsFoundInASlotAndBehindTheRegistrationsBack) {
  EXPECT_FALSE(weights.slot_difference(LayerId{0}, SlotId{4}, ExpertId{3}));
  const auto found = weights.slot_difference(LayerId{0}, SlotId{4}, ExpertId{2});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->region, Region::payload);
  EXPECT_EQ(found->slot, SlotId{4});
  EXPECT_EQ(found->expert, ExpertId{2});
  EXPECT_FALSE(weights.slot_difference(LayerId{0}, SlotId{4}, ExpertId{3}));
}

TEST_P(Planted, AVacantSlotIsSeenToo) {
  ExpertStore& store = weights.store();
  std::vector<std::byte> zeros(store.bundle_bytes(LayerId{0}));
  store.begin_layer(LayerId{0});
  store.exchange_bundle(LayerId{0}, SlotId{3}, zeros);
  store.end_layer(LayerId{0});
  const auto found = weights.first_difference(contents);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->slot, SlotId{3});
  EXPECT_EQ(weights.find_difference(placement), "");  // Which may hold anything, as far as a placement says.
}

INSTANTIATE_TEST_SUITE_P(HostMemory, PlantedBytes,
                         testing::Values(Arrangement::dense, Arrangement::padded_slots,
                                         Arrangement::padded_rows, Arrangement::nz));
INSTANTIATE_TEST_SUITE_P(All, Planted,
                         testing::Values(Arrangement::dense, Arrangement::padded_slots,
                                         Arrangement::padded_rows, Arrangement::nz,
                                         Arrangement::poisoning_nz));

TEST(LayoutWeights, ASliceOfADevicesStorageIsFound) {
  LayoutWeights weights({.layers = std::span(&bundle, 1), .arrangement = Arrangement::poisoning_nz}, slots);
  const SlotContents contents(placement, slots);
  weights.fill(contents);
  weights.store().tensors(LayerId{0})[0].base[5] ^= std::byte{1};
  EXPECT_EQ(weights.first_difference(contents)->region, Region::slice);
}

TEST(LayoutWeights, ForgottenScalesAreNotRegisteredButCompared) {
  LayoutWeights weights({.layers = std::span(&bundle, 1), .forgets_scales = true}, slots);
  EXPECT_EQ(weights.store().tensors(LayerId{0}).size(), 1U);
  const SlotContents contents(placement, slots);
  weights.fill(contents);
  SlotContents moved = contents;
  moved.set(LayerId{0}, SlotId{4}, ExpertId{0});
  std::vector<std::byte> bytes(weights.store().bundle_bytes(LayerId{0}));
  weights.store().read_bundle(LayerId{0}, SlotId{4}, bytes);
  EXPECT_EQ(weights.first_difference(moved)->tensor, "w");
  EXPECT_FALSE(weights.first_difference(contents));
}

TEST(Difference, SaysWhereAndWhat) {
  const Difference found{.region = Region::payload,
                         .layer = LayerId{1},
                         .tensor = "w2",
                         .slot = SlotId{7},
                         .expert = ExpertId{3},
                         .offset = 12,
                         .expected = std::byte{0x40},
                         .found = std::byte{0x0f}};
  EXPECT_EQ(to_string(found), "layer 1, tensor w2, slot 7 (expert 3), byte 12: 0x0f, not 0x40");
}

}  // namespace
}  // namespace trimtab::verify
