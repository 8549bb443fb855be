// SPDX-License-Identifier: Apache-2.0
#include "moe/text/traffic.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

#include "unit/moe/text/some_model.hpp"

namespace trimtab::moe {
namespace {

TEST(TextTraffic, EachDomainPrevailsInItsTurn) {
  const TextTraffic traffic = some_traffic();
  for (std::uint64_t f = 0; f < traffic.num_forwards; ++f) {
    const std::vector<double> mix = mix_at(traffic, Forward{f});
    EXPECT_NEAR(std::accumulate(mix.begin(), mix.end(), 0.0), 1.0, 1e-12);
    EXPECT_GT(*std::ranges::min_element(mix), 0.0);
  }
  EXPECT_NEAR(mix_at(traffic, Forward{0})[0], 0.85, 1e-12);
  EXPECT_NEAR(mix_at(traffic, Forward{39})[2], 0.85, 1e-12);
  EXPECT_NEAR(mix_at(traffic, Forward{1000})[2], 0.85, 1e-12);
  EXPECT_GT(mix_at(traffic, Forward{20})[1], 0.8);
}

TEST(TextTraffic, OneDomainIsAllThereIs) {
  TextTraffic traffic = some_traffic();
  traffic.domains.resize(1);
  EXPECT_EQ(mix_at(traffic, Forward{7}), std::vector<double>{1.0});
  EXPECT_EQ(make_request(traffic, Rank{0}, 3, Forward{7}).domain, 0U);
}

TEST(TextTraffic, RequestsFollowTheMix) {
  const TextTraffic traffic = some_traffic();
  std::vector<int> counts(3);
  for (std::uint64_t i = 0; i < 2000; ++i) ++counts[make_request(traffic, Rank{1}, i, Forward{0}).domain];
  EXPECT_NEAR(counts[0], 1700, 60);
  EXPECT_NEAR(counts[1], 150, 45);
}

TEST(TextTraffic, APromptIsAStretchOfItsDomainBehindAZero) {
  const TextTraffic traffic = some_traffic();
  for (std::uint64_t i = 0; i < 200; ++i) {
    const TextRequest request = make_request(traffic, Rank{2}, i, Forward{20});
    ASSERT_EQ(request.prompt.size(), 10U);
    EXPECT_EQ(request.prompt[0], begin_byte);
    const auto& text = traffic.domains[request.domain].text;
    EXPECT_NE(std::search(text.begin(), text.end(), request.prompt.begin() + 1, request.prompt.end()),
              text.end());
    EXPECT_EQ(request.id >> 32, 2U);
  }
}

TEST(TextTraffic, IsRefusedWhenItDoesNotFit) {
  const TextConfig config = small_text();
  const auto refused = [&](const TextTraffic& traffic) {
    const Status checked = check_traffic(traffic, config);
    return checked ? "accepted" : checked.error().message;
  };
  EXPECT_EQ(refused(some_traffic()), "accepted");
  TextTraffic none = some_traffic();
  none.domains.clear();
  EXPECT_EQ(refused(none), "no text to take prompts from");
  TextTraffic shorter = some_traffic();
  shorter.domains[1].text.resize(8);
  EXPECT_EQ(refused(shorter), "from A.txt: 8 bytes < 9, the length of a prompt");
  TextTraffic zero = some_traffic();
  zero.domains[2].text[17] = 0;
  EXPECT_EQ(refused(zero), "from 0.txt: byte 17 is 0, which begins every text");
  TextTraffic silent = some_traffic();
  silent.new_bytes = 0;
  EXPECT_EQ(refused(silent), "9 bytes of prompt and 0 to be said: both must be at least 1");
  TextTraffic longer = some_traffic();
  longer.new_bytes = 16;
  EXPECT_EQ(refused(longer), "9 bytes of prompt and 16 to be said > 24, the model's context");
}

}  // namespace
}  // namespace trimtab::moe
