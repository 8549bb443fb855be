// SPDX-License-Identifier: Apache-2.0
#include <trimtab/weights/expert_store.hpp>
#include <trimtab/weights/host_copy_source.hpp>

#include "unit/weights/bundle_arena.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trimtab::test {
namespace {

using testing::HasSubstr;

constexpr LayerId layer{1};
constexpr ExpertId expert{7};
const std::vector<std::byte> bundle = BundleArena::bundle_of(layer, expert);

TEST(HostCopySource, GivesBackWhatWasAdded) {
  HostCopySource source(1 << 20);
  std::vector<std::byte> given = bundle;
  ASSERT_TRUE(source.add(layer, expert, given));
  std::ranges::fill(given, std::byte{0});  // It has a copy of its own.
  EXPECT_TRUE(source.holds(layer, expert) && source.is_verified(layer, expert));
  EXPECT_FALSE(source.holds(LayerId{2}, expert) || source.is_verified(LayerId{2}, expert));
  std::vector<std::byte> back(bundle.size());
  ASSERT_TRUE(source.read(layer, expert, back));
  EXPECT_EQ(back, bundle);
  EXPECT_EQ(source.checksum(layer, expert), ExpertStore::checksum(layer, bundle, expert));
  EXPECT_EQ(source.read(layer, ExpertId{8}, back).error().code, Errc::not_found);
  EXPECT_EQ(source.read(layer, expert, std::span(back).first(5)).error().code, Errc::invalid_argument);
  EXPECT_EQ(source.counters().bundles_read, 1U);
  EXPECT_EQ(source.counters().bytes_read, bundle.size());
  EXPECT_EQ(source.counters().num_failed, 2U);
}

TEST(HostCopySource, StaysInItsBudget) {
  HostCopySource source(2 * bundle.size() - 1);
  ASSERT_TRUE(source.add(layer, expert, bundle));
  const Status full = source.add(layer, ExpertId{8}, bundle);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, Errc::infeasible);
  EXPECT_THAT(full.error().message,
              HasSubstr("layer 1, expert 8: 13396 bytes beside 13396 held exceed the budget of 26791"));
  EXPECT_EQ(source.held_bytes(), bundle.size());
  EXPECT_FALSE(source.holds(layer, ExpertId{8}));
  EXPECT_TRUE(source.remove(layer, expert));
  EXPECT_FALSE(source.remove(layer, expert));
  EXPECT_EQ(source.held_bytes(), 0U);
  EXPECT_TRUE(source.add(layer, ExpertId{8}, bundle));
  EXPECT_EQ(source.describe(), "1 host copies (13396 of 26791 bytes)");
}

TEST(HostCopySource, HoldsAnExpertOnce) {
  HostCopySource source(1 << 20);
  ASSERT_TRUE(source.add(layer, expert, bundle));
  EXPECT_EQ(source.add(layer, expert, bundle).error().code, Errc::invalid_argument);
  EXPECT_EQ(source.add(layer, ExpertId{8}, {}).error().code, Errc::invalid_argument);
  EXPECT_EQ(source.held_bytes(), bundle.size());
}

TEST(HostCopySource, RefusesBytesThatAreNotThoseOfTheirChecksum) {
  HostCopySource source(1 << 20);
  const std::uint64_t checksum = ExpertStore::checksum(layer, bundle, expert);
  EXPECT_EQ(source.add(layer, ExpertId{8}, bundle, checksum).error().code, Errc::corrupt);
  EXPECT_EQ(source.held_bytes(), 0U);
  EXPECT_TRUE(source.add(layer, expert, bundle, checksum));
}

TEST(HostCopySource, FindsMemoryThatChanged) {
  HostCopySource source(1 << 20);
  ASSERT_TRUE(source.add(layer, expert, bundle));
  const auto held = source.bundle(layer, expert);
  const_cast<std::byte&>(held[held.size() / 2]) ^= std::byte{4};
  std::vector<std::byte> back(bundle.size());
  const Status done = source.read(layer, expert, back);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Errc::corrupt);
  EXPECT_THAT(done.error().message, HasSubstr("host copies: layer 1, expert 7: the bytes have checksum "));
}

class SourceChainTest : public testing::Test {
 protected:
  SourceChainTest()
      : near(std::make_shared<HostCopySource>(1 << 20)), far(std::make_shared<HostCopySource>(1 << 21)) {}

  std::shared_ptr<HostCopySource> near;
  std::shared_ptr<HostCopySource> far;
  SourceChain chain{{near, far}};
  std::vector<std::byte> back = std::vector<std::byte>(bundle.size());
};

TEST_F(SourceChainTest, AsksTheFirstThatHolds) {
  ASSERT_TRUE(near->add(layer, expert, bundle) && far->add(layer, expert, bundle));
  ASSERT_TRUE(far->add(layer, ExpertId{8}, bundle));
  ASSERT_TRUE(chain.read(layer, expert, back));
  EXPECT_EQ(far->counters().bundles_read, 0U);
  ASSERT_TRUE(chain.holds(layer, ExpertId{8}) && chain.read(layer, ExpertId{8}, back));
  EXPECT_EQ(near->counters().bundles_read + near->counters().num_failed, 1U);
  EXPECT_EQ(far->counters().bundles_read, 1U);
  EXPECT_EQ(chain.counters().bundles_read, 2U);
}

TEST_F(SourceChainTest, FallsBackWhenOneIsCorrupt) {
  ASSERT_TRUE(near->add(layer, expert, bundle) && far->add(layer, expert, bundle));
  const_cast<std::byte&>(near->bundle(layer, expert)[0]) ^= std::byte{1};
  ASSERT_TRUE(chain.read(layer, expert, back));
  EXPECT_EQ(back, bundle);
  EXPECT_EQ(near->counters().num_failed, 1U);
  const_cast<std::byte&>(far->bundle(layer, expert)[0]) ^= std::byte{1};
  const Status done = chain.read(layer, expert, back);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Errc::corrupt);
  EXPECT_THAT(done.error().message, HasSubstr("; host copies: "));  // Both are heard.
}

TEST_F(SourceChainTest, SaysWhereAnExpertIsNot) {
  EXPECT_FALSE(chain.holds(layer, expert));
  EXPECT_FALSE(chain.is_verified(layer, expert));
  const Status done = chain.read(layer, expert, back);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Errc::not_found);
  EXPECT_EQ(done.error().message,
            "layer 1, expert 7: not in 0 host copies (0 of 1048576 bytes), then 0 host copies (0 of 2097152 "
            "bytes)");
  EXPECT_EQ(SourceChain({}).describe(), "no source");
}

/// A source without checksums.
class UnverifiedSource final : public ExpertSource {
 public:
  bool holds(LayerId, ExpertId) const override { return true; }
  bool is_verified(LayerId, ExpertId) const override { return false; }
  std::string describe() const override { return "unverified"; }

 private:
  Status read_bundle(LayerId, ExpertId, std::span<std::byte>) override { return {}; }
};

TEST_F(SourceChainTest, IsAsTrustworthyAsTheWorstThatMayServe) {
  ASSERT_TRUE(near->add(layer, expert, bundle));
  EXPECT_TRUE(chain.is_verified(layer, expert));
  EXPECT_FALSE(SourceChain({near, std::make_shared<UnverifiedSource>()}).is_verified(layer, expert));
}

}  // namespace
}  // namespace trimtab::test
