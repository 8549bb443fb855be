// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "route/id_rows.hpp"
#include "route/phase_table.hpp"
#include "route/quota_layer.hpp"
#include "route/spread.hpp"

#include <cstdint>
#include <cstring>

namespace trimtab {

/// Calls `pick` for each id of a run, in order, and writes what it returns. `in` may be `out`.
template <class Id, class Pick>
void dispatch_run(const Id* in, Id* out, std::size_t count, Pick pick) {
  std::size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    prefetch_ahead<false>(in, i, count);
    prefetch_ahead<true>(out, i, count);
    for (std::size_t j = i; j < i + 16; ++j) out[j] = pick(in[j]);
  }
  for (; i < count; ++i) out[i] = pick(in[i]);
}

/// The same for a `pick` that stores: four slots then leave in one store, since stores are what binds.
template <class Id>
using FourIds __attribute__((vector_size(4 * sizeof(Id)))) = Id;

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
void dispatch_run_by_fours(const Id* in, Id* out, std::size_t count, Pick pick) {
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
  const auto pick = [slots](Id expert) { return static_cast<Id>(slots[expert]); };
  for_each_run(rows, [&](const Id* in, Id* out, std::size_t count) { dispatch_run(in, out, count, pick); });
}

/// `fixed_width` is the width where it is known, else 0.
template <std::size_t fixed_width, class Id>
void dispatch_by_phase(const IdRows<Id> rows, const PhaseTable& table, std::uint64_t phase) {
  const std::size_t width = fixed_width == 0 ? rows.width : fixed_width;
  const std::size_t count = (rows.num_rows - 1) * rows.stride + width;
  for (std::size_t row = 0, at = 0; row < rows.num_rows; ++row, at += rows.stride, phase += golden_step_64) {
    if (row % 2 == 0) {
      prefetch_ahead<false>(rows.in, at, count);
      prefetch_ahead<true>(rows.out, at, count);
    }
    const auto high = static_cast<std::uint32_t>(phase >> 32);
    const std::int16_t* entries = table.row(high);
#pragma GCC unroll 8
    for (std::size_t i = 0; i < width; ++i) {
      const std::int16_t entry = entries[rows.in[at + i]];
      std::int32_t slot = entry;
      if (PhaseTable::is_cut(entry)) [[unlikely]] {
        slot = table.pick_at_cut(entry, high);
      }
      rows.out[at + i] = static_cast<Id>(slot);
    }
  }
}

/// For tables whose slots the rows of a phase table cannot name.
template <class Id>
void dispatch_by_search(const IdRows<Id>& rows, const RoutingTable& table, LayerId layer,
                        std::uint64_t phase) {
  for (std::size_t row = 0; row < rows.num_rows; ++row, phase += golden_step_64) {
    const auto high = static_cast<std::uint32_t>(phase >> 32);
    for (std::size_t i = row * rows.stride; i < row * rows.stride + rows.width; ++i) {
      const ExpertId expert{rows.in[i]};
      const SlotId slot = expert == no_expert ? no_slot : PhaseTable::search(table, layer, expert, high);
      rows.out[i] = static_cast<Id>(slot.value());
    }
  }
}

/// Row r holds token `first_token + r`. There must be a row.
template <class Id>
void dispatch_rank_invariant(const IdRows<Id>& rows, const RoutingTable& table, LayerId layer,
                             const PhaseTable& phases, std::uint64_t first_token) {
  const std::uint64_t phase = first_token * golden_step_64;
  if (!phases.has_rows()) return dispatch_by_search(rows, table, layer, phase);
  if (rows.width == 8) return dispatch_by_phase<8>(rows, phases, phase);
  dispatch_by_phase<0>(rows, phases, phase);
}

/// Also `exact_batch`, which differs only in what the layer was built from.
template <class Id>
void dispatch_quota(const IdRows<Id>& rows, QuotaLayer& layer) {
  const auto [turns, ring] = layer.view();
  const auto pick = [&layer, turns = turns, ring = ring](Id expert) {
    std::uint32_t& turn = turns[expert];
    const std::uint64_t entry = ring[turn];
    std::uint32_t next = QuotaLayer::next_of(entry);
    if (QuotaLayer::ends_lap(next)) [[unlikely]]
      next = layer.finish_lap(next);
    turn = next;
    return static_cast<Id>(QuotaLayer::slot_of(entry));
  };
  for_each_run(
      rows, [&](const Id* in, Id* out, std::size_t count) { dispatch_run_by_fours(in, out, count, pick); });
}

}  // namespace trimtab
