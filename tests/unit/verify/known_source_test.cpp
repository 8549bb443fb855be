// SPDX-License-Identifier: Apache-2.0
#include "verify/known_source.hpp"

#include <gtest/gtest.h>

namespace trimtab::verify {
namespace {

TEST(KnownSource, HasTheBytesThatAnyRankWouldRead) {
  Case drawn = draw_case(1, {}).value();
  LayoutWeights weights({.layers = drawn.layers, .arrangement = Arrangement::dense}, ids<SlotId>(1));
  KnownSource source(drawn);
  const LayerId layer{0};
  std::vector<ExpertId> map(static_cast<std::size_t>(drawn.first.num_layers()), ExpertId{0});
  weights.fill(Placement::make(drawn.first.num_layers(), 1, 1, std::move(map)).value());
  std::vector<std::byte> held(drawn.bundle_bytes()[0]);
  std::vector<std::byte> read(held.size());
  weights.store().read_bundle(layer, SlotId{0}, held);
  ASSERT_TRUE(source.read(layer, ExpertId{0}, read));
  EXPECT_EQ(read, held);
}

TEST(KnownSource, RefusesWhatIsNotInTheCase) {
  const Case drawn = draw_case(1, {}).value();
  KnownSource source(drawn);
  std::vector<std::byte> bundle(drawn.bundle_bytes()[0]);
  const ExpertId beyond{drawn.first.num_experts()};
  EXPECT_FALSE(source.holds(LayerId{0}, beyond));
  EXPECT_EQ(source.read(LayerId{0}, beyond, bundle).error().code, Errc::not_found);
}

}  // namespace
}  // namespace trimtab::verify
