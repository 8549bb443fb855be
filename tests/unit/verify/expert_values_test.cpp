// SPDX-License-Identifier: Apache-2.0
#include "verify/expert_values.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace trimtab::verify {
namespace {

TEST(ExpertValues, AreUniqueByLayerExpertTensorAndPosition) {
  std::vector<std::uint64_t> words;
  for (LayerId layer : ids<LayerId>(6)) {
    for (ExpertId expert : ids<ExpertId>(40)) {
      for (std::size_t tensor = 0; tensor < 6; ++tensor) {
        for (std::size_t word = 0; word < 60; ++word)
          words.push_back(expert_word(layer, expert, tensor, word));
      }
    }
  }
  std::ranges::sort(words);
  EXPECT_EQ(std::ranges::adjacent_find(words), words.end());
}

TEST(ExpertValues, AreUniqueAtTheEndsOfTheirRanges) {
  std::vector<std::uint64_t> words;
  for (const std::int32_t layer : {0, 1, 65535}) {
    for (const std::int32_t expert : {0, 1, 65535}) {
      for (const std::size_t tensor : {std::size_t{0}, std::size_t{255}}) {
        for (const std::size_t word : {std::size_t{0}, std::size_t{(1U << 24) - 1}})
          words.push_back(expert_word(LayerId{layer}, ExpertId{expert}, tensor, word));
      }
    }
  }
  std::ranges::sort(words);
  EXPECT_EQ(std::ranges::adjacent_find(words), words.end());
}

TEST(ExpertValues, FillAPayloadByteByByteAndCutTheLastWord) {
  std::vector<std::byte> payload(21);
  fill_expert(LayerId{2}, ExpertId{3}, 1, payload);
  for (std::size_t i = 0; i < payload.size(); ++i)
    EXPECT_EQ(payload[i], expert_byte(LayerId{2}, ExpertId{3}, 1, i)) << i;
  const std::uint64_t last = expert_word(LayerId{2}, ExpertId{3}, 1, 2);
  EXPECT_EQ(payload[16], static_cast<std::byte>(last));
  EXPECT_EQ(payload[20], static_cast<std::byte>(last >> 32));
}

}  // namespace
}  // namespace trimtab::verify
