// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/topology.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace trimtab {
namespace {

Status check_ranks(const std::vector<RankInfo>& ranks) {
  std::int64_t num_slots = 0;
  std::int32_t num_nodes = 0;
  bool any_alive = false;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const RankInfo& info = ranks[r];
    if (info.num_slots < 0) {
      return failure(Errc::invalid_argument, fmt::format("rank {}: slot count {} < 0", r, info.num_slots));
    }
    if (!(info.speed > 0.0) || !std::isfinite(info.speed)) {
      return failure(Errc::invalid_argument,
                     fmt::format("rank {}: speed {} is not a positive finite number", r, info.speed));
    }
    if (info.node.value() < 0 || info.node.value() > num_nodes) {
      return failure(Errc::invalid_argument,
                     fmt::format("rank {}: node {} is not in 0..{} (nodes are numbered in rank order)", r,
                                 info.node.value(), num_nodes));
    }
    num_nodes = std::max(num_nodes, info.node.value() + 1);
    num_slots += info.num_slots;
    any_alive = any_alive || info.is_alive;
  }
  if (!any_alive) {
    return failure(Errc::invalid_argument, fmt::format("no live rank among {}", ranks.size()));
  }
  if (num_slots > std::numeric_limits<std::int32_t>::max()) {
    return failure(Errc::invalid_argument, fmt::format("{} slots per layer > {}", num_slots,
                                                       std::numeric_limits<std::int32_t>::max()));
  }
  return {};
}

}  // namespace

Result<Topology> Topology::make(std::vector<RankInfo> ranks) {
  if (Status checked = check_ranks(ranks); !checked) return failure(std::move(checked));
  return Topology(std::move(ranks));
}

Result<Topology> Topology::make_uniform(std::int32_t num_ranks, std::int32_t num_nodes,
                                        std::int32_t num_slots) {
  if (num_ranks < 1) {
    return failure(Errc::invalid_argument, fmt::format("{} ranks < 1", num_ranks));
  }
  if (num_nodes < 1 || num_nodes > num_ranks) {
    return failure(Errc::invalid_argument,
                   fmt::format("{} nodes is not in 1..{} (the number of ranks)", num_nodes, num_ranks));
  }
  if (num_slots < 0) {
    return failure(Errc::invalid_argument, fmt::format("{} slots < 0", num_slots));
  }
  std::vector<RankInfo> ranks(static_cast<std::size_t>(num_ranks));
  for (std::int32_t r = 0; r < num_ranks; ++r) {
    const auto node = std::int64_t{r} * num_nodes / num_ranks;
    RankInfo& info = ranks[static_cast<std::size_t>(r)];
    info.node = NodeId{static_cast<std::int32_t>(node)};
    info.num_slots = num_slots / num_ranks + (r < num_slots % num_ranks ? 1 : 0);
  }
  return make(std::move(ranks));
}

Topology::Topology(std::vector<RankInfo> ranks) : ranks_(std::move(ranks)) {
  first_slot_.push_back(0);
  for (const RankInfo& info : ranks_) {
    const Rank rank{static_cast<std::int32_t>(first_slot_.size()) - 1};
    first_slot_.push_back(first_slot_.back() + info.num_slots);
    rank_of_slot_.insert(rank_of_slot_.end(), static_cast<std::size_t>(info.num_slots), rank);
    num_nodes_ = std::max(num_nodes_, info.node.value() + 1);
    if (info.is_alive) {
      num_live_slots_ += info.num_slots;
      total_speed_ += info.speed;
    }
  }
}

std::int32_t Topology::num_ranks() const noexcept { return static_cast<std::int32_t>(ranks_.size()); }

std::int32_t Topology::num_slots() const noexcept { return first_slot_.back(); }

IdRange<SlotId> Topology::slots_of(Rank rank) const noexcept {
  return {SlotId{first_slot_[rank.index()]}, SlotId{first_slot_[rank.index() + 1]}};
}

}  // namespace trimtab
