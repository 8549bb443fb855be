// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/checksum.hpp>
#include <trimtab/route/routing_table.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace trimtab {
namespace {

constexpr std::int64_t load_limit = std::int64_t{1} << 62;

Status check_source_loads(std::span<const std::int64_t> loads, std::int32_t num_ranks) {
  if (loads.empty()) return {};
  if (loads.size() != static_cast<std::size_t>(num_ranks)) {
    return failure(Errc::invalid_argument,
                   fmt::format("{} source loads for {} ranks", loads.size(), num_ranks));
  }
  std::int64_t sum = 0;
  for (Rank rank : ids<Rank>(num_ranks)) {
    const std::int64_t load = loads[rank.index()];
    if (load < 0) {
      return failure(Errc::invalid_argument,
                     fmt::format("rank {}: source load {} is below 0", rank.value(), load));
    }
    if (load >= load_limit - sum) {
      return failure(Errc::invalid_argument,
                     fmt::format("source loads up to rank {} sum to more than {}", rank.value(), load_limit));
    }
    sum += load;
  }
  return {};
}

Status check_split(const Split& split, const Placement& placement) {
  if (split.num_layers() == placement.num_layers() && split.num_slots() == placement.num_slots()) return {};
  return failure(Errc::invalid_argument,
                 fmt::format("split of {} layers x {} slots for a placement of {} x {}", split.num_layers(),
                             split.num_slots(), placement.num_layers(), placement.num_slots()));
}

/// Room for a sum of any assignments, times whole_share.
__extension__ typedef unsigned __int128 Wide;

/// Where a share ends, rounded down. Long division is several times slower and hardly ever needed.
std::uint64_t share_of(Wide part, Wide total) {
  if (total > std::numeric_limits<std::uint32_t>::max()) {
    return static_cast<std::uint64_t>((part << 32) / total);
  }
  return (static_cast<std::uint64_t>(part) << 32) / static_cast<std::uint64_t>(total);
}

template <class T>
std::size_t bytes_of(const std::vector<T>& values) {
  return values.size() * sizeof(T);
}

}  // namespace

struct RoutingTable::Inputs {
  const Placement& placement;
  const Topology& topology;
  const Split* split;
};

Result<RoutingTable> RoutingTable::compile(const Placement& placement, const Topology& topology,
                                           TableIdentity identity, const TableOptions& options) {
  return compile(Inputs{placement, topology, nullptr}, identity, options);
}

Result<RoutingTable> RoutingTable::compile(const Placement& placement, const Topology& topology,
                                           TableIdentity identity, const Split& split,
                                           const TableOptions& options) {
  if (Status same = check_split(split, placement); !same) return failure(std::move(same));
  return compile(Inputs{placement, topology, &split}, identity, options);
}

Result<RoutingTable> RoutingTable::compile(const Inputs& inputs, TableIdentity identity,
                                           const TableOptions& options) {
  const auto& [placement, topology, split] = inputs;
  if (Status live = check_live(placement, topology); !live) return failure(std::move(live));
  if (Status loads = check_source_loads(options.source_loads, topology.num_ranks()); !loads) {
    return failure(std::move(loads));
  }
  RoutingTable table(placement.num_layers(), placement.num_experts(), topology, identity, options);
  table.reserve();
  for (LayerId layer : ids<LayerId>(placement.num_layers())) {
    const auto assignments = split == nullptr ? std::span<const std::int64_t>{} : split->layer(layer);
    for (ExpertId expert : ids<ExpertId>(placement.num_experts())) {
      table.add_row(placement.replicas(layer, expert), assignments);
    }
  }
  table.fingerprint_ = table.compute_fingerprint();
  return table;
}

RoutingTable::RoutingTable(std::int32_t num_layers, std::int32_t num_experts, const Topology& topology,
                           TableIdentity identity, const TableOptions& options)
    : num_layers_(num_layers),
      num_experts_(num_experts),
      identity_(identity),
      model_(options.model),
      topology_(topology) {
  add_source_loads(options.source_loads);
}

void RoutingTable::reserve() {
  const auto layers = static_cast<std::size_t>(num_layers_);
  const std::size_t max_places = layers * static_cast<std::size_t>(topology_.num_live_slots());
  first_replica_.reserve(layers * static_cast<std::size_t>(num_experts_) + 1);
  first_replica_.push_back(0);
  slots_.reserve(max_places);
  share_begins_.reserve(max_places);
}

void RoutingTable::add_source_loads(std::span<const std::int64_t> loads) {
  const auto ranks = ids<Rank>(topology_.num_ranks());
  bool is_even = true;
  for (Rank rank : ranks) {
    is_even = is_even && (loads.empty() || !topology_.is_alive(rank) || loads[rank.index()] == 0);
  }
  source_loads_before_.reserve(ranks.size() + 1);
  source_loads_before_.push_back(0);
  for (Rank rank : ranks) {
    const std::int64_t load = is_even ? 1 : loads[rank.index()];
    source_loads_before_.push_back(source_loads_before_.back() + (topology_.is_alive(rank) ? load : 0));
  }
}

void RoutingTable::add_row(std::span<const SlotId> replicas, std::span<const std::int64_t> assignments) {
  std::size_t num_live = 0;
  bool is_shared = false;
  for (SlotId slot : replicas) {
    if (!topology_.is_alive(slot)) continue;
    ++num_live;
    is_shared = is_shared || (!assignments.empty() && assignments[slot.index()] > 0);
  }
  if (is_shared) {
    add_shared(replicas, assignments);
  } else {
    add_even(replicas, num_live);
  }
  first_replica_.push_back(static_cast<std::uint32_t>(slots_.size()));
}

void RoutingTable::add_even(std::span<const SlotId> replicas, std::size_t num_live) {
  std::uint64_t i = 0;
  for (SlotId slot : replicas) {
    if (!topology_.is_alive(slot)) continue;
    slots_.push_back(slot);
    share_begins_.push_back(static_cast<std::uint32_t>(i++ * whole_share / num_live));
  }
}

void RoutingTable::add_shared(std::span<const SlotId> replicas, std::span<const std::int64_t> assignments) {
  const auto part_of = [&](SlotId slot) {
    return topology_.is_alive(slot) ? Wide(assignments[slot.index()]) : Wide{0};
  };
  Wide total = 0;
  for (SlotId slot : replicas) total += part_of(slot);
  std::uint64_t begin = 0;
  Wide sum = 0;
  for (SlotId slot : replicas) {
    sum += part_of(slot);
    const std::uint64_t end = share_of(sum, total);
    if (end == begin) continue;
    slots_.push_back(slot);
    share_begins_.push_back(static_cast<std::uint32_t>(std::exchange(begin, end)));
  }
}

namespace {

tl::unexpected<Error> corrupt(std::string what) {
  return failure(Errc::corrupt, "routing table: " + std::move(what));
}

Status check_sizes(const TableParts& parts) {
  const auto num_rows = std::uint64_t{static_cast<std::uint32_t>(std::max(parts.num_layers, 0))} *
                        static_cast<std::uint32_t>(std::max(parts.num_experts, 0));
  const std::size_t num_places = parts.slots.size();
  if (num_rows < 1 || parts.first_replica.size() != num_rows + 1 || parts.share_begins.size() != num_places) {
    return corrupt(fmt::format("{} layers x {} experts, {} bounds, {} slots, {} shares", parts.num_layers,
                               parts.num_experts, parts.first_replica.size(), num_places,
                               parts.share_begins.size()));
  }
  if (parts.first_replica.front() == 0 && parts.first_replica.back() == num_places) return {};
  return corrupt(fmt::format("bounds {} to {} for {} slots", parts.first_replica.front(),
                             parts.first_replica.back(), num_places));
}

/// One expert's slots and shares. `user` is [slots]: the layer that last used each, plus 1.
Status check_row(const TableParts& parts, std::size_t row, const Topology& topology,
                 std::vector<std::uint32_t>& user) {
  const auto num_experts = static_cast<std::size_t>(parts.num_experts);
  const std::size_t layer = row / num_experts;
  const auto named = [&](std::string what) {
    return corrupt(fmt::format("layer {}, expert {}: {}", layer, row % num_experts, what));
  };
  const std::size_t begin = parts.first_replica[row];
  const std::size_t end = parts.first_replica[row + 1];
  if (end <= begin || end > parts.slots.size()) return named(fmt::format("slots at {} to {}", begin, end));
  for (std::size_t i = begin; i < end; ++i) {
    const SlotId slot = parts.slots[i];
    if (!ids<SlotId>(topology.num_slots()).contains(slot)) {
      return named(fmt::format("slot {} is not in 0..{}", slot.value(), topology.num_slots() - 1));
    }
    if (!topology.is_alive(slot)) return named(fmt::format("slot {} is on no live rank", slot.value()));
    if (std::exchange(user[slot.index()], static_cast<std::uint32_t>(layer + 1)) == layer + 1) {
      return named(fmt::format("slot {} serves already", slot.value()));
    }
    const std::uint32_t share = parts.share_begins[i];
    const bool ascends =
        i == begin ? share == 0 : slot > parts.slots[i - 1] && share > parts.share_begins[i - 1];
    if (!ascends) return named(fmt::format("slot {} with a share from {} on", slot.value(), share));
  }
  return {};
}

}  // namespace

Result<RoutingTable> RoutingTable::restore(TableParts parts, const Topology& topology, TableIdentity identity,
                                           const TableOptions& options) {
  if (Status s = check_source_loads(options.source_loads, topology.num_ranks()); !s) {
    return failure(std::move(s));
  }
  if (Status s = check_sizes(parts); !s) return failure(std::move(s));
  std::vector<std::uint32_t> user(static_cast<std::size_t>(topology.num_slots()));
  for (std::size_t row = 0; row + 1 < parts.first_replica.size(); ++row) {
    if (Status s = check_row(parts, row, topology, user); !s) return failure(std::move(s));
  }
  RoutingTable table(parts.num_layers, parts.num_experts, topology, identity, options);
  table.first_replica_ = std::move(parts.first_replica);
  table.slots_ = std::move(parts.slots);
  table.share_begins_ = std::move(parts.share_begins);
  table.fingerprint_ = table.compute_fingerprint();
  return table;
}

std::uint64_t RoutingTable::compute_fingerprint() const {
  std::vector<std::uint64_t> head{identity_.epoch.value(), identity_.split_version,
                                  static_cast<std::uint64_t>(model_), static_cast<std::uint64_t>(num_layers_),
                                  static_cast<std::uint64_t>(num_experts_)};
  for (Rank rank : ids<Rank>(topology_.num_ranks())) {
    const RankInfo& info = topology_.rank(rank);
    head.push_back(info.node.index());
    head.push_back(static_cast<std::uint64_t>(info.num_slots));
  }
  std::uint64_t sum = checksum_of(std::as_bytes(std::span(head)));
  sum = checksum_of(std::as_bytes(std::span(first_replica_)), sum);
  sum = checksum_of(std::as_bytes(std::span(slots_)), sum);
  sum = checksum_of(std::as_bytes(std::span(share_begins_)), sum);
  return checksum_of(std::as_bytes(std::span(source_loads_before_)), sum);
}

std::size_t RoutingTable::bytes() const noexcept {
  const std::size_t topology = static_cast<std::size_t>(topology_.num_ranks()) * sizeof(RankInfo) +
                               static_cast<std::size_t>(topology_.num_slots()) * sizeof(Rank);
  return sizeof(*this) + topology + bytes_of(source_loads_before_) + bytes_of(first_replica_) +
         bytes_of(slots_) + bytes_of(share_begins_);
}

}  // namespace trimtab
