// SPDX-License-Identifier: Apache-2.0
#include "plan/compat/torch_sort.hpp"

#include <algorithm>
#include <array>
#include <bit>

namespace trimtab {
namespace {

/// As in libstdc++: longer ranges are partitioned, the others left to insertion sort.
constexpr std::size_t short_range = 16;

constexpr std::uint64_t low_half = 0xffffffffU;

/// [short_range + d]: 1 where d > 0.
constexpr std::array<std::int32_t, 2 * short_range> behind = [] {
  std::array<std::int32_t, 2 * short_range> result{};
  for (std::size_t i = short_range + 1; i < result.size(); ++i) result[i] = 1;
  return result;
}();

bool is_before(std::uint64_t a, std::uint64_t b) { return (a >> 32U) > (b >> 32U); }

/// The median of words[1], the middle and the last word goes to words[0], what was there to its place.
void move_median_to_front(std::span<std::uint64_t> words) {
  const std::size_t a = 1;
  const std::size_t b = words.size() / 2;
  const std::size_t c = words.size() - 1;
  const bool a_b = is_before(words[a], words[b]);
  const bool b_c = is_before(words[b], words[c]);
  const bool a_c = is_before(words[a], words[c]);
  // Chosen by arithmetic: which it is cannot be predicted.
  const bool is_b = a_b ? b_c : !a_c && !b_c;
  const bool is_c = a_b ? !b_c && a_c : !a_c && b_c;
  std::swap(words[0], words[is_b ? b : is_c ? c : a]);
}

/// Sorts the first `count` of `words`, stably, by counting for each how many come before it: those of larger
/// value, and of equal value and in front. Always takes `width` words, so that no loop has to find its end
/// and the compiler counts several at once; those behind `count` come last and stay as they are.
template <std::size_t width>
void sort_by_counting(std::uint64_t* words, std::size_t count) {
  std::array<std::int32_t, width> values;
  std::array<std::int32_t, width> places{};
  std::array<std::uint64_t, width> sorted;
  for (std::size_t i = 0; i < width; ++i) {
    values[i] = i < count ? static_cast<std::int32_t>(words[i] >> 32U) : -1;
  }
  for (std::size_t j = 0; j < width; ++j) {
    const std::int32_t* is_in_front = behind.data() + short_range - j;
    for (std::size_t i = 0; i < width; ++i) places[i] += values[j] + is_in_front[i] > values[i] ? 1 : 0;
  }
  for (std::size_t i = 0; i < width; ++i) sorted[static_cast<std::size_t>(places[i])] = words[i];
  std::copy(sorted.begin(), sorted.end(), words);
}

void sort_short(std::span<std::uint64_t> words) {
  if (words.size() <= 8) {
    sort_by_counting<8>(words.data(), words.size());
  } else if (words.size() <= 12) {
    sort_by_counting<12>(words.data(), words.size());
  } else {
    sort_by_counting<short_range>(words.data(), words.size());
  }
}

}  // namespace

void TorchSort::operator()(std::span<Key<float>> keys) {
  words_.resize(keys.size() + short_range);
  from_left_.resize(keys.size());
  from_right_.resize(keys.size());
  std::transform(keys.begin(), keys.end(), words_.begin(), [](Key<float> key) { return key.bits; });
  sort_range(Words(words_).first(keys.size()), 2 * (static_cast<int>(std::bit_width(keys.size())) - 1));
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = {words_[i]};
}

void TorchSort::sort_range(Words words, int depth) {
  for (; words.size() > short_range; --depth) {
    if (depth == 0) {  // Too many bad pivots.
      std::make_heap(words.begin(), words.end(), is_before);
      std::sort_heap(words.begin(), words.end(), is_before);
      return;
    }
    const std::size_t cut = partition(words);
    sort_range(words.subspan(cut), depth - 1);
    words = words.first(cut);
  }
  sort_short(words);
}

// Hoare's two pointers stop at words that may cross and swap them pair by pair until they meet: the k-th stop
// from the left with the k-th from the right. They mostly meet near the middle, so each half is listed from
// its own side first, and only the side that has run out goes on into the other half.
std::size_t TorchSort::partition(Words words) {
  move_median_to_front(words);
  const std::uint64_t highest_equal = words[0] | low_half;
  const std::uint64_t lowest_equal = words[0] & ~low_half;
  const std::size_t half = words.size() / 2;
  std::size_t num_left = 0;
  std::size_t num_right = 0;
  const auto list_left = [&](std::size_t i) {
    from_left_[num_left] = static_cast<std::uint32_t>(i);
    num_left += words[i] <= highest_equal ? 1 : 0;
  };
  const auto list_right = [&](std::size_t i) {
    from_right_[num_right] = static_cast<std::uint32_t>(i);
    num_right += words[i] >= lowest_equal ? 1 : 0;
  };
  for (std::size_t i = 1; i < half; ++i) list_left(i);
  for (std::size_t i = words.size(); i-- > half;) list_right(i);
  // Pairs across the middle have not crossed.
  const std::size_t num_sure = std::min(num_left, num_right);
  for (std::size_t k = 0; k < num_sure; ++k) std::swap(words[from_left_[k]], words[from_right_[k]]);
  if (num_left == num_right) return half;
  if (num_left > num_right) {
    const std::size_t unpaired = from_left_[num_right];
    for (std::size_t i = half; i-- > unpaired;) list_right(i);
  } else {
    const std::size_t last = std::min<std::size_t>(from_right_[num_left] + 1, words.size() - 1);
    for (std::size_t i = half; i <= last; ++i) list_left(i);
  }
  const std::size_t num_pairs = swap_pairs(words, num_sure, std::min(num_left, num_right));
  // They meet at the next stop from the left, which may be the word that was last swapped over.
  const std::size_t last_swapped = num_pairs > 0 ? from_right_[num_pairs - 1] : words.size();
  return num_pairs < num_left ? std::min<std::size_t>(from_left_[num_pairs], last_swapped) : last_swapped;
}

std::size_t TorchSort::swap_pairs(Words words, std::size_t pair, std::size_t last) {
  for (; pair < last && from_left_[pair] < from_right_[pair]; ++pair) {
    std::swap(words[from_left_[pair]], words[from_right_[pair]]);
  }
  return pair;
}

}  // namespace trimtab
