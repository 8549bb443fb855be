// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "route/alias_layer.hpp"
#include "route/id_rows.hpp"
#include "route/quota_layer.hpp"
#include "route/spread.hpp"

#include <cstdint>
#include <cstring>

namespace trimtab {

/// Four slots leave in one store: the loops are bound by stores.
template <class Id>
using FourIds __attribute__((vector_size(4 * sizeof(Id)))) = Id;

/// Calls `pick` for each id of a run, in order, and writes what it returns. `in` may be `out`.
template <class Id, class Pick>
void dispatch_four(const Id* in, Id* out, Pick& pick) {
  const Id a = pick(in[0]);
  const Id b = pick(in[1]);
  const Id c = pick(in[2]);
  const Id d = pick(in[3]);
  const FourIds<Id> four{a, b, c, d};
  std::memcpy(out, &four, sizeof(four));
}

template <class Id, class Pick>
void dispatch_run(const Id* in, Id* out, std::size_t count, Pick& pick) {
  std::size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    prefetch_ahead<false>(in, i, count);
    prefetch_ahead<true>(out, i, count);
    for (std::size_t j = 0; j < 16; j += 4) dispatch_four(in + i + j, out + i + j, pick);
  }
  for (; i + 4 <= count; i += 4) dispatch_four(in + i, out + i, pick);
  for (; i < count; ++i) out[i] = pick(in[i]);
}

/// One slot for each expert; `slots[-1]` is that of padding.
template <class Id>
void dispatch_nearest(const IdRows<Id>& rows, const std::int32_t* slots) {
  auto pick = [slots](Id expert) { return static_cast<Id>(slots[expert]); };
  for_each_run(rows, [&](const Id* in, Id* out, std::size_t count) { dispatch_run(in, out, count, pick); });
}

/// Row r holds token `first_token + r`.
template <class Id>
void dispatch_rank_invariant(const IdRows<Id>& rows, AliasLayer::View view, std::uint64_t first_token) {
  const std::size_t count = (rows.num_rows - 1) * rows.stride + rows.width;
  std::uint64_t phase = first_token * golden_step_64;
  for (std::size_t row = 0; row < rows.num_rows; ++row, phase += golden_step_64) {
    const auto high = static_cast<std::uint32_t>(phase >> 32);
    auto pick = [view, high](Id expert) { return static_cast<Id>(AliasLayer::pick(view, expert, high)); };
    const std::size_t at = row * rows.stride;
    prefetch_ahead<false>(rows.in, at, count);
    prefetch_ahead<true>(rows.out, at, count);
    std::size_t i = 0;
    for (; i + 4 <= rows.width; i += 4) dispatch_four(rows.in + at + i, rows.out + at + i, pick);
    for (; i < rows.width; ++i) rows.out[at + i] = pick(rows.in[at + i]);
  }
}

/// Also `exact_batch`, which differs only in what the layer was built from.
template <class Id>
void dispatch_quota(const IdRows<Id>& rows, QuotaLayer& layer) {
  const auto [turns, ring] = layer.view();
  auto pick = [&layer, turns = turns, ring = ring](Id expert) {
    std::uint32_t& turn = turns[expert];
    const std::uint64_t entry = ring[turn];
    std::uint32_t next = QuotaLayer::next_of(entry);
    if (QuotaLayer::ends_lap(next)) [[unlikely]]
      next = layer.finish_lap(next);
    turn = next;
    return static_cast<Id>(QuotaLayer::slot_of(entry));
  };
  for_each_run(rows, [&](const Id* in, Id* out, std::size_t count) { dispatch_run(in, out, count, pick); });
}

}  // namespace trimtab
