// SPDX-License-Identifier: Apache-2.0
#include <trimtab/route/router.hpp>

#include "fuzz/fuzz_input.hpp"

#include <algorithm>
#include <type_traits>

namespace trimtab::test {
namespace {

/// A batch of ids, many of them wild, in rows that may be longer than what is dispatched.
template <class Id>
struct Drawn {
  Batch batch;
  std::vector<Id> ids;
  std::vector<std::int64_t> assignments;
};

template <class Id>
Drawn<Id> draw_batch(FuzzInput& input, const RoutingTable& table) {
  Drawn<Id> drawn;
  drawn.batch.top_k = 1 + input.below(9);
  const std::int32_t shared = input.below(3);
  if (shared > 0) drawn.batch.row_stride = drawn.batch.top_k + shared;
  const std::int32_t num_rows = input.below(40);
  const auto stride = static_cast<std::size_t>(drawn.batch.top_k) + static_cast<std::size_t>(shared);
  drawn.ids.resize(stride * static_cast<std::size_t>(num_rows));
  if (input.below(2) == 1) drawn.batch.num_valid_tokens = input.below(num_rows + 2);
  drawn.batch.first_token = input.number<std::uint32_t>();
  const bool is_wild = input.below(4) == 3;
  for (Id& id : drawn.ids) {
    const std::uint8_t draw = input.byte();
    id = static_cast<Id>(draw % (table.num_experts() + 1) - 1);
    if (is_wild && draw > 250) id = input.number<Id>();
  }
  return drawn;
}

template <class Id>
bool is_dispatched(const Drawn<Id>& drawn, std::size_t i) {
  const auto width = static_cast<std::size_t>(drawn.batch.top_k);
  const auto stride = drawn.batch.row_stride == 0 ? width : static_cast<std::size_t>(drawn.batch.row_stride);
  return i % stride < width;
}

template <class Id>
bool is_valid_row(const Drawn<Id>& drawn, std::size_t i) {
  const auto stride =
      static_cast<std::size_t>(drawn.batch.row_stride == 0 ? drawn.batch.top_k : drawn.batch.row_stride);
  return drawn.batch.num_valid_tokens < 0 ||
         i / stride < static_cast<std::size_t>(drawn.batch.num_valid_tokens);
}

/// Numbers that fit the batch, unless `spoil` says otherwise.
template <class Id>
void draw_assignments(FuzzInput& input, const RoutingTable& table, LayerId layer, Drawn<Id>& drawn) {
  drawn.assignments.assign(static_cast<std::size_t>(table.num_slots()), 0);
  for (std::size_t i = 0; i < drawn.ids.size(); ++i) {
    const auto id = static_cast<std::int32_t>(drawn.ids[i]);
    if (!is_dispatched(drawn, i) || !is_valid_row(drawn, i) || id < 0 || id >= table.num_experts()) continue;
    const auto replicas = table.replicas(layer, ExpertId{id});
    ++drawn.assignments[replicas[static_cast<std::size_t>(input.byte()) % replicas.size()].index()];
  }
  if (input.byte() == 200) drawn.assignments[0] += input.number<std::int64_t>() >> 1;
  drawn.batch.assignments = drawn.assignments;
}

template <class Id>
void require_dispatched(const RoutingTable& table, LayerId layer, const Drawn<Id>& drawn,
                        const std::vector<Id>& slots, Id untouched_mark) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(table.num_slots()));
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (!is_dispatched(drawn, i)) {
      require(slots[i] == untouched_mark);
      continue;
    }
    if (!is_valid_row(drawn, i) || drawn.ids[i] == -1) {
      require(slots[i] == -1);
      continue;
    }
    const auto replicas = table.replicas(layer, ExpertId{drawn.ids[i]});
    require(std::ranges::count(replicas, SlotId{slots[i]}) == 1);
    ++counts[static_cast<std::size_t>(slots[i])];
  }
  if (!drawn.batch.assignments.empty()) require(counts == drawn.assignments);
}

template <class Id>
void dispatch_some(FuzzInput& input, const RoutingTable& table, Router& router) {
  // At times a layer that the table does not have.
  const LayerId layer{input.below(table.num_layers() + 1)};
  const bool has_layer = layer.value() < table.num_layers();
  Drawn<Id> drawn = draw_batch<Id>(input, table);
  if (router.options().mode == DispatchMode::exact_batch && has_layer) {
    draw_assignments(input, table, layer, drawn);
  }
  constexpr Id mark = 77;
  std::vector<Id> slots(drawn.ids.size(), mark);
  const bool in_place = input.below(2) == 1;
  std::vector<Id> same = drawn.ids;
  const Status status = in_place ? router.dispatch_raw(table, layer, std::span<const Id>(same),
                                                       std::span<Id>(same), drawn.batch)
                                 : router.dispatch_raw(table, layer, drawn.ids, slots, drawn.batch);
  if (!status) {
    require(!status.error().message.empty());
    require(same == drawn.ids && std::ranges::all_of(slots, [](Id slot) { return slot == mark; }));
    return;
  }
  if (!in_place) return require_dispatched(table, layer, drawn, slots, mark);
  for (std::size_t i = 0; i < same.size(); ++i) {
    if (is_dispatched(drawn, i)) continue;
    require(same[i] == drawn.ids[i]);
    same[i] = mark;
  }
  require_dispatched(table, layer, drawn, same, mark);
}

}  // namespace

void fuzz_dispatch(std::span<const std::uint8_t> bytes) {
  FuzzInput input(bytes);
  const auto mode = static_cast<DispatchMode>(input.below(4));
  const TableCase first = draw_table(input);
  if (!first.table) return;
  const RoutingTable& table = *first.table;
  const Rank rank{input.below(table.topology().num_ranks() + 1)};
  Router router(table.num_layers(), table.num_experts(), rank, {.mode = mode});
  while (!input.is_empty()) {
    if (input.below(2) == 0) {
      dispatch_some<std::int32_t>(input, table, router);
    } else {
      dispatch_some<std::int16_t>(input, table, router);
    }
  }
}

}  // namespace trimtab::test
