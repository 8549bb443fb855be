// SPDX-License-Identifier: Apache-2.0
#include "plan/compat/torch_sort.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace trimtab {
namespace {

std::vector<Key<float>> keys_of(const std::vector<float>& values) {
  std::vector<Key<float>> keys;
  for (float value : values)
    keys.push_back(Key<float>::smallest_first(value, static_cast<std::uint32_t>(keys.size())));
  return keys;
}

std::vector<std::uint32_t> order_of(const std::vector<float>& values) {
  std::vector<Key<float>> keys = keys_of(values);
  TorchSort sort;
  sort(keys);
  std::vector<std::uint32_t> owners;
  for (Key<float> key : keys) owners.push_back(key.owner());
  return owners;
}

/// Values in the order of a sort, largest first, of the indices by std::sort itself.
std::vector<std::uint32_t> order_of_std_sort(const std::vector<float>& values) {
  std::vector<std::uint32_t> order(values.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::uint32_t>(i);
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return values[a] > values[b]; });
  return order;
}

using Pattern = float (*)(std::size_t i, std::size_t n, std::mt19937& random);

constexpr Pattern patterns[] = {
    [](std::size_t, std::size_t, std::mt19937& random) { return static_cast<float>(random()); },
    [](std::size_t, std::size_t, std::mt19937& random) { return static_cast<float>(random() % 2); },
    [](std::size_t, std::size_t, std::mt19937& random) { return static_cast<float>(random() % 17); },
    [](std::size_t, std::size_t, std::mt19937&) { return 1.0F; },
    [](std::size_t i, std::size_t, std::mt19937&) { return static_cast<float>(i - i % 3); },
    [](std::size_t i, std::size_t n, std::mt19937&) { return static_cast<float>(n - i + i % 3); },
    [](std::size_t i, std::size_t n, std::mt19937&) { return static_cast<float>(std::min(i, n - i)); },
    [](std::size_t i, std::size_t, std::mt19937&) { return static_cast<float>(i % 7); },
};

#ifdef __GLIBCXX__  // Elsewhere std::sort is another algorithm, and the golden plans are the only judge.
TEST(TorchSort, OrdersEqualValuesAsStdSortDoes) {
  std::mt19937 random(11);
  for (int round = 0; round < 3000; ++round) {
    const std::size_t n = random() % (round % 20 == 0 ? 1500 : 120);
    const Pattern pattern = patterns[random() % std::size(patterns)];
    std::vector<float> values(n);
    for (std::size_t i = 0; i < n; ++i) values[i] = pattern(i, n, random);
    ASSERT_EQ(order_of(values), order_of_std_sort(values)) << "round " << round << ", " << n << " values";
  }
}

// Median of three always picks a bad pivot here, so that the sort gives up and takes a heap.
TEST(TorchSort, FallsBackAsStdSortDoes) {
  for (std::size_t size : {200U, 1000U, 4000U}) {
    std::vector<float> values(size);
    for (std::size_t i = 0; i < size; ++i) values[i] = static_cast<float>(std::min(i, size - i));
    EXPECT_EQ(order_of(values), order_of_std_sort(values)) << size;
  }
}
#endif

TEST(TorchSort, IsStableUpTo16) {
  EXPECT_EQ(order_of({1, 2, 1, 2, 3, 1, 3, 2, 1, 1, 2, 2, 3, 3, 1, 2}),
            (std::vector<std::uint32_t>{4, 6, 12, 13, 1, 3, 7, 10, 11, 15, 0, 2, 5, 8, 9, 14}));
}

TEST(TorchSort, TakesNothingAndOne) {
  EXPECT_TRUE(order_of({}).empty());
  EXPECT_EQ(order_of({5}), std::vector<std::uint32_t>{0});
}

}  // namespace
}  // namespace trimtab
