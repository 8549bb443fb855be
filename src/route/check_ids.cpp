// SPDX-License-Identifier: Apache-2.0
#include "route/check_ids.hpp"

#include <algorithm>
#include <array>
#include <limits>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace trimtab {
namespace {

/// Least and largest id seen, saturated to 16 bits where that loses nothing.
struct Extremes {
  std::int32_t least = -1;
  std::int32_t most = -1;
};

template <class Id>
void widen_plain(Extremes& extremes, const Id* ids, std::size_t count) noexcept {
  Id least = -1;
  Id most = -1;
  for (std::size_t i = 0; i < count; ++i) {
    least = std::min(least, ids[i]);
    most = std::max(most, ids[i]);
  }
  extremes.least = std::min<std::int32_t>(extremes.least, least);
  extremes.most = std::max<std::int32_t>(extremes.most, most);
}

#ifdef __SSE2__
/// Plain SSE2 compares 32-bit numbers in several steps, 16-bit ones in one: packing with saturation first
/// makes this pass over all ids three times as fast. It is half of what dispatch adds to a plain look-up.
void widen(Extremes& extremes, const std::int32_t* ids, std::size_t count) noexcept {
  const auto load = [&](std::size_t i) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(ids + i)); };
  __m128i least = _mm_set1_epi16(-1);
  __m128i most = least;
  std::size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    prefetch_ahead<false>(ids, i, count);
    const __m128i low = _mm_packs_epi32(load(i), load(i + 4));
    const __m128i high = _mm_packs_epi32(load(i + 8), load(i + 12));
    least = _mm_min_epi16(least, _mm_min_epi16(low, high));
    most = _mm_max_epi16(most, _mm_max_epi16(low, high));
  }
  alignas(16) std::array<std::int16_t, 16> lanes;
  _mm_store_si128(reinterpret_cast<__m128i*>(lanes.data()), least);
  _mm_store_si128(reinterpret_cast<__m128i*>(lanes.data() + 8), most);
  widen_plain(extremes, lanes.data(), lanes.size());
  widen_plain(extremes, ids + i, count - i);
}
#else
void widen(Extremes& extremes, const std::int32_t* ids, std::size_t count) noexcept {
  widen_plain(extremes, ids, count);
}
#endif

}  // namespace

bool are_experts(const IdRows<std::int32_t>& rows, std::int32_t num_experts) noexcept {
  Extremes extremes;
  const bool fits_16_bits = num_experts <= std::numeric_limits<std::int16_t>::max();
  for_each_run(rows, [&](const std::int32_t* ids, std::int32_t* /*out*/, std::size_t count) {
    if (fits_16_bits) {
      widen(extremes, ids, count);
    } else {
      widen_plain(extremes, ids, count);
    }
  });
  return extremes.least == -1 && extremes.most < num_experts;
}

bool are_experts(const IdRows<std::int16_t>& rows, std::int32_t num_experts) noexcept {
  Extremes extremes;
  for_each_run(rows, [&](const std::int16_t* ids, std::int16_t* /*out*/, std::size_t count) {
    widen_plain(extremes, ids, count);
  });
  return extremes.least == -1 && extremes.most < num_experts;
}

}  // namespace trimtab
