// SPDX-License-Identifier: Apache-2.0
#include <trimtab/weights/expert_store.hpp>

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace trimtab::test {
namespace {

constexpr IdRange<SlotId> rank_slots{SlotId{4}, SlotId{8}};
constexpr LayerId layer{1};
constexpr std::size_t huge = std::numeric_limits<std::size_t>::max();

struct NoStorage final : WholeStorage {
  StorageIdentity now;
  [[nodiscard]] StorageIdentity identity() const noexcept override { return now; }
  void read(std::span<std::byte> /*nd*/) noexcept override {}
  void write(std::span<const std::byte> /*nd*/) noexcept override {}
};

/// A matrix of 20 rows of 48 bytes in NZ, one with a pitch, and a vector.
class RegisterLayouts : public testing::Test {
 protected:
  RegisterLayouts() : memory(64 * 1024), store(3, rank_slots) {
    bundle.push_back({"nz", ElementType::bfloat16, memory.data(), 4, 960, 2048});
    nz().layout = {.format = Format::fractal_nz, .rows = 20};
    bundle.push_back({"pitched", ElementType::float32, memory.data() + 16384, 4, 96, 256});
    pitched().layout = {.rows = 3, .row_pitch_bytes = 64};
    bundle.push_back({"scale", ElementType::float32, memory.data() + 32768, 4, 80, 80});
  }

  TensorSpec& nz() { return bundle[0]; }
  TensorSpec& pitched() { return bundle[1]; }
  TensorSpec& scale() { return bundle[2]; }

  void expect_refused(const std::string& beginning) {
    const Status status = store.register_layer(layer, bundle);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Errc::invalid_argument);
    EXPECT_EQ(status.error().message.substr(0, beginning.size()), beginning);
    EXPECT_EQ(status.error().message.find('\n'), std::string::npos);
    EXPECT_TRUE(store.tensors(layer).empty());
    EXPECT_EQ(store.workspace_bytes(), 0U);
    EXPECT_FALSE(store.needs_workspace(layer));
  }

  std::vector<std::byte> memory;
  ExpertStore store;
  std::vector<TensorSpec> bundle;
};

TEST_F(RegisterLayouts, TakesThemAllInOneBundle) {
  ASSERT_TRUE(store.register_layer(layer, bundle));
  EXPECT_EQ(store.bundle_bytes(layer), 960U + 96 + 80);
  EXPECT_TRUE(store.needs_workspace(layer));
  EXPECT_EQ(store.workspace_bytes(), 4U * (960 + 96));
}

TEST_F(RegisterLayouts, CountsRowsThatTouchAsAddressable) {
  pitched().layout.row_pitch_bytes = 32;
  bundle.erase(bundle.begin());
  ASSERT_TRUE(store.register_layer(layer, bundle));
  EXPECT_FALSE(store.needs_workspace(layer));
}

TEST_F(RegisterLayouts, RefusesANameTwice) {
  scale().name = "nz";
  expect_refused("layer 1, tensor nz: the name comes twice in the bundle of 3 tensors");
}

TEST_F(RegisterLayouts, RefusesNoRows) {
  nz().layout.rows = 0;
  expect_refused("layer 1, tensor nz: slot of 960 bytes is no multiple of 0 rows");
}

TEST_F(RegisterLayouts, RefusesRowsThatDoNotDivideTheSlot) {
  nz().layout.rows = 7;
  expect_refused("layer 1, tensor nz: slot of 960 bytes is no multiple of 7 rows");
}

TEST_F(RegisterLayouts, RefusesARowOfBrokenElements) {
  nz().layout.rows = 64;  // 15 bytes
  nz().stride_bytes = 2048;
  expect_refused("layer 1, tensor nz: row of 15 bytes is no multiple of the element size 2");
}

TEST_F(RegisterLayouts, RefusesRowsThatShareMemory) {
  pitched().layout.row_pitch_bytes = 28;
  expect_refused("layer 1, tensor pitched: row pitch of 28 bytes < row of 32 bytes: rows share memory");
}

TEST_F(RegisterLayouts, RefusesAMisalignedPitch) {
  pitched().layout.row_pitch_bytes = 66;
  expect_refused("layer 1, tensor pitched: row pitch of 66 bytes is not aligned to the element size 4");
}

TEST_F(RegisterLayouts, RefusesSlotsThatOverlapByTheirPitch) {
  pitched().stride_bytes = 156;
  expect_refused("layer 1, tensor pitched: stride of 156 bytes < slot of 160 bytes: slots share memory");
}

TEST_F(RegisterLayouts, RefusesAPitchInNz) {
  nz().layout.row_pitch_bytes = 64;
  expect_refused("layer 1, tensor nz: row pitch of 64 bytes, but fractal NZ has none (0)");
}

TEST_F(RegisterLayouts, RefusesAnNzStrideBelowThePaddedSlot) {
  nz().stride_bytes = 960;
  expect_refused("layer 1, tensor nz: stride of 960 bytes < slot of 2048 bytes: slots share memory");
}

TEST_F(RegisterLayouts, RefusesAGapBetweenNzSlots) {
  nz().stride_bytes = 2080;
  expect_refused(
      "layer 1, tensor nz: stride of 2080 bytes, but slots of 20 rows of 48 bytes in fractal NZ are "
      "2048 apart");
}

TEST_F(RegisterLayouts, RefusesNegativeFusedExperts) {
  scale().num_fused = -1;
  expect_refused("layer 1, tensor scale: -1 fused shared experts < 0");
}

TEST_F(RegisterLayouts, RefusesATensorInTheFusedRegionOfAnother) {
  nz().num_fused = 1;
  scale().base = memory.data() + 4 * 2048 + 2044;  // The region's last word.
  expect_refused("layer 1, tensor scale: memory 0x");
  nz().num_fused = 0;
  EXPECT_TRUE(store.register_layer(layer, bundle));
}

TEST_F(RegisterLayouts, RefusesSizesOfRowsThatOverflow) {
  pitched().layout.row_pitch_bytes = huge / 2;
  expect_refused("layer 1, tensor pitched: 3 rows of 9223372036854775807 bytes overflow the size of a slot");
}

TEST_F(RegisterLayouts, RefusesNzPaddingThatOverflows) {
  nz().type = ElementType::int8;
  nz().slot_bytes = huge;
  nz().layout.rows = huge;
  expect_refused("layer 1, tensor nz: 18446744073709551615 rows of 1 bytes overflow the size of a slot");
  nz().layout.rows = 1;
  expect_refused("layer 1, tensor nz: 1 rows of 18446744073709551615 bytes overflow the size of a slot");
  nz().layout.rows = 3;  // 16 rows of a third of everything.
  expect_refused("layer 1, tensor nz: 3 rows of 6148914691236517205 bytes overflow the size of a slot");
}

TEST_F(RegisterLayouts, RefusesFusedExpertsBeyondTheAddressSpace) {
  scale().num_fused = 1000;
  scale().stride_bytes = huge / 512 / 4 * 4;
  expect_refused("layer 1, tensor scale: 1004 slots of stride ");
}

TEST(RegisterLayoutsOfAnEmptyRank, RefusesABundleWhoseSizeOverflows) {
  std::byte memory{};
  ExpertStore store(1, {SlotId{3}, SlotId{3}});
  std::vector<TensorSpec> bundle{{"a", ElementType::int8, &memory, 0, huge, huge},
                                 {"b", ElementType::int8, &memory, 0, 1, 1}};
  const Status status = store.register_layer(LayerId{0}, bundle);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "layer 0, tensor b: slot of 1 bytes > 0 left for the bundle");
}

TEST_F(RegisterLayouts, RefusesAWholeStorageInFormatNd) {
  NoStorage storage;
  scale().storage = &storage;
  expect_refused("layer 1, tensor scale: a whole storage in format ND (2), wanted NZ (29)");
}

TEST_F(RegisterLayouts, RefusesAStorageElsewhereOrTaggedOtherwise) {
  NoStorage storage;
  nz().storage = &storage;
  storage.now = {memory.data() + 2, Format::fractal_nz};
  expect_refused("layer 1, tensor nz: its storage is at 0x");
  storage.now = {memory.data(), Format::nd};
  expect_refused("layer 1, tensor nz: its storage is at 0x");
  storage.now = {memory.data(), Format::fractal_nz};
  EXPECT_TRUE(store.register_layer(layer, bundle));
}

/// Every rank has declared the same bundle.
class ExpectedBundle : public RegisterLayouts {
 protected:
  ExpectedBundle() {
    EXPECT_TRUE(store.expect_bundle(layer, {{"nz", ElementType::bfloat16, 960},
                                            {"pitched", ElementType::float32, 96},
                                            {"scale", ElementType::float32, 80}}));
  }
};

TEST_F(ExpectedBundle, IsTakenWhole) { EXPECT_TRUE(store.register_layer(layer, bundle)); }

// vllm-project/vllm#47588, #48355; sgl-project/sglang#17158: a tensor of the bundle was forgotten.
TEST_F(ExpectedBundle, RefusesAMissingTensor) {
  bundle.pop_back();
  expect_refused("layer 1, tensor scale: missing: 2 tensors given, the bundle has 3");
}

TEST_F(ExpectedBundle, RefusesATensorTooMany) {
  bundle.push_back({"g1_alphas", ElementType::float32, memory.data() + 40960, 4, 4, 4});
  expect_refused("layer 1, tensor g1_alphas: none of the 3 tensors of the bundle");
}

TEST_F(ExpectedBundle, RefusesAnotherOrder) {
  std::swap(bundle[1], bundle[2]);
  expect_refused("layer 1, tensor scale: at place 1 of the bundle, but expected at 2");
}

TEST_F(ExpectedBundle, RefusesAnotherType) {
  scale().type = ElementType::int32;
  expect_refused("layer 1, tensor scale: element type 4, but the bundle has 5");
}

// sgl-project/sglang#13715: a scale had another shape than its peers.
TEST_F(ExpectedBundle, RefusesAnotherSize) {
  scale().slot_bytes = 76;
  expect_refused("layer 1, tensor scale: slot of 76 bytes, but the bundle has 80");
}

TEST_F(ExpectedBundle, IsDeclaredBeforeRegistrationOnly) {
  ASSERT_TRUE(store.register_layer(layer, bundle));
  EXPECT_FALSE(store.expect_bundle(layer, {}));
  const Status status = store.expect_bundle(LayerId{3}, {{"w", ElementType::int8, 1}});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "layer 3, tensor w: the layer is not in 0..2");
}

}  // namespace
}  // namespace trimtab::test
