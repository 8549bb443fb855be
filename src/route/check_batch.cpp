// SPDX-License-Identifier: Apache-2.0
#include "route/check_batch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace trimtab {
namespace {

/// Sums over any number of slots stay far from overflow.
constexpr std::int64_t max_assignments = std::int64_t{1} << 40;

Status check_rows(LayerId layer, const Batch& batch, std::size_t num_ids) {
  if (batch.top_k < 1) {
    return failure(Errc::invalid_argument,
                   fmt::format("layer {}: top-k {} is below 1", layer.value(), batch.top_k));
  }
  if (batch.row_stride != 0 && batch.row_stride < batch.top_k) {
    return failure(Errc::invalid_argument, fmt::format("layer {}: row stride {} is below top-k {}",
                                                       layer.value(), batch.row_stride, batch.top_k));
  }
  const auto stride = static_cast<std::size_t>(batch.row_stride == 0 ? batch.top_k : batch.row_stride);
  if (num_ids % stride != 0) {
    return failure(Errc::invalid_argument,
                   fmt::format("layer {}: {} ids are no whole rows of {}", layer.value(), num_ids, stride));
  }
  const auto num_rows = static_cast<std::int64_t>(num_ids / stride);
  if (batch.num_valid_tokens < -1 || batch.num_valid_tokens > num_rows) {
    return failure(Errc::invalid_argument, fmt::format("layer {}: {} valid tokens of {}", layer.value(),
                                                       batch.num_valid_tokens, num_rows));
  }
  return {};
}

Status check_given_assignments(const RoutingTable& table, LayerId layer, DispatchMode mode,
                               std::span<const std::int64_t> assignments) {
  if (mode != DispatchMode::exact_batch) {
    if (assignments.empty()) return {};
    return failure(Errc::invalid_argument,
                   fmt::format("layer {}: assignments are for mode exact-batch, not {}", layer.value(),
                               to_string(mode)));
  }
  if (assignments.size() != static_cast<std::size_t>(table.num_slots())) {
    return failure(Errc::invalid_argument, fmt::format("layer {}: assignments of {} slots, table of {}",
                                                       layer.value(), assignments.size(), table.num_slots()));
  }
  for (SlotId slot : ids<SlotId>(table.num_slots())) {
    const std::int64_t count = assignments[slot.index()];
    if (count >= 0 && count <= max_assignments) continue;
    return failure(Errc::invalid_argument, fmt::format("layer {}, slot {}: {} assignments are not in 0..{}",
                                                       layer.value(), slot.value(), count, max_assignments));
  }
  return {};
}

}  // namespace

Status check_table(const RoutingTable& table, LayerId layer, const RouterShape& router) {
  if (table.model() != router.options.model) {
    return failure(Errc::invalid_argument,
                   fmt::format("routing table of the {} model, router of the {} model",
                               to_string(table.model()), to_string(router.options.model)));
  }
  if (table.num_layers() != router.num_layers || table.num_experts() != router.num_experts) {
    return failure(
        Errc::invalid_argument,
        fmt::format("routing table of {} layers x {} experts, router of {} x {}", table.num_layers(),
                    table.num_experts(), router.num_layers, router.num_experts));
  }
  if (!ids<LayerId>(router.num_layers).contains(layer)) {
    return failure(Errc::invalid_argument,
                   fmt::format("layer {} is not in 0..{}", layer.value(), router.num_layers - 1));
  }
  const std::int32_t num_ranks = table.topology().num_ranks();
  if (router.options.mode != DispatchMode::nearest || ids<Rank>(num_ranks).contains(router.rank)) return {};
  return failure(Errc::invalid_argument, fmt::format("router of rank {}, routing table of ranks 0..{}",
                                                     router.rank.value(), num_ranks - 1));
}

Status check_batch(const RoutingTable& table, LayerId layer, DispatchMode mode, const Batch& batch,
                   const BatchSizes& sizes) {
  if (sizes.num_experts != sizes.num_slots) {
    return failure(Errc::invalid_argument, fmt::format("layer {}: {} experts for {} slots", layer.value(),
                                                       sizes.num_experts, sizes.num_slots));
  }
  if (table.num_slots() - 1 > sizes.largest_id) {
    return failure(Errc::invalid_argument,
                   fmt::format("layer {}: slot {} of the routing table is above {}", layer.value(),
                               table.num_slots() - 1, sizes.largest_id));
  }
  if (Status s = check_rows(layer, batch, sizes.num_experts); !s) return s;
  return check_given_assignments(table, layer, mode, batch.assignments);
}

template <class Id>
Error first_bad_id(LayerId layer, const IdRows<Id>& rows, std::int32_t num_experts) {
  for (std::size_t row = 0; row < rows.num_rows; ++row) {
    for (std::size_t column = 0; column < rows.width; ++column) {
      const Id id = rows.in[row * rows.stride + column];
      if (id >= -1 && id < num_experts) continue;
      return {.code = Errc::invalid_argument,
              .message = fmt::format("layer {}, token {}, column {}: expert {} is not in 0..{}",
                                     layer.value(), row, column, id, num_experts - 1)};
    }
  }
  return {.code = Errc::internal, .message = "no id is out of range"};
}
template Error first_bad_id(LayerId, const IdRows<std::int32_t>&, std::int32_t);
template Error first_bad_id(LayerId, const IdRows<std::int16_t>&, std::int32_t);

namespace {

Error unlisted_slot(const RoutingTable& table, LayerId layer, std::span<const std::int64_t> assignments) {
  std::vector<std::int64_t> left(assignments.begin(), assignments.end());
  for (ExpertId expert : ids<ExpertId>(table.num_experts())) {
    for (SlotId slot : table.replicas(layer, expert)) left[slot.index()] = 0;
  }
  const auto found = std::find_if(left.begin(), left.end(), [](std::int64_t count) { return count > 0; });
  return {.code = Errc::invalid_argument,
          .message = fmt::format("layer {}, slot {}: {} assignments, but the routing table gives it no share",
                                 layer.value(), found - left.begin(), *found)};
}

}  // namespace

Status check_assignments(const RoutingTable& table, LayerId layer, std::span<const std::int64_t> assignments,
                         std::span<const std::int64_t> counts) {
  std::int64_t listed = 0;
  for (ExpertId expert : ids<ExpertId>(table.num_experts())) {
    std::int64_t sum = 0;
    for (SlotId slot : table.replicas(layer, expert)) sum += assignments[slot.index()];
    listed += sum;
    const std::int64_t count = counts[expert.index() + 1];
    if (sum == count) continue;
    return failure(Errc::invalid_argument,
                   fmt::format("layer {}, expert {}: its slots are to take {} assignments, the batch has {}",
                               layer.value(), expert.value(), sum, count));
  }
  const std::int64_t all = std::accumulate(assignments.begin(), assignments.end(), std::int64_t{0});
  if (all == listed) return {};
  return Status(tl::unexpect, unlisted_slot(table, layer, assignments));
}

}  // namespace trimtab
