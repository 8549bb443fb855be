// SPDX-License-Identifier: Apache-2.0
#include "plain_dinic.hpp"

#include <algorithm>
#include <limits>

namespace trimtab::bench {
namespace {

class DinicSplit final : public PlainSplit {
 public:
  DinicSplit(std::span<const ExpertId> row, std::int32_t num_experts, const Topology& topology)
      : num_experts_(static_cast<std::size_t>(num_experts)),
        num_ranks_(static_cast<std::size_t>(topology.num_ranks())),
        arcs_of_(2 + num_experts_ + num_ranks_) {
    for (std::size_t e = 0; e < num_experts_; ++e) add(source, 2 + e);
    for (SlotId slot : ids<SlotId>(row.size())) {
      slot_arcs_.push_back(arcs_.size());
      add(2 + row[slot.index()].index(), rank_node(topology.rank_of(slot).index()));
    }
    first_rank_arc_ = arcs_.size();
    for (std::size_t r = 0; r < num_ranks_; ++r) add(rank_node(r), sink);
  }

  std::int64_t solve(std::span<const std::int64_t> loads, std::span<std::int64_t> assignments) override {
    std::int64_t left = 0;
    for (Arc& arc : arcs_) arc.room = 0;
    for (std::size_t e = 0; e < num_experts_; ++e) {
      arcs_[2 * e].room = loads[e];
      left += loads[e];
    }
    for (std::size_t a : slot_arcs_) arcs_[a].room = std::numeric_limits<std::int64_t>::max() / 2;
    const auto ranks = static_cast<std::int64_t>(num_ranks_);
    std::int64_t target = 0;
    for (std::int64_t more = (left + ranks - 1) / ranks; more > 0;) {
      target += more;
      for (std::size_t r = 0; r < num_ranks_; ++r) arcs_[first_rank_arc_ + 2 * r].room += more;
      while (find_levels()) left -= push(source, std::numeric_limits<std::int64_t>::max());
      std::int64_t full = 0;  // ranks that what is left over can reach
      for (std::size_t r = 0; r < num_ranks_; ++r) full += level_[rank_node(r)] >= 0 ? 1 : 0;
      more = left > 0 ? (left + full - 1) / full : 0;
    }
    for (std::size_t s = 0; s < slot_arcs_.size(); ++s) assignments[s] = arcs_[slot_arcs_[s] ^ 1].room;
    return target;
  }

 private:
  struct Arc {
    std::size_t to;
    std::int64_t room;
  };
  static constexpr std::size_t source = 0;
  static constexpr std::size_t sink = 1;

  [[nodiscard]] std::size_t rank_node(std::size_t rank) const { return 2 + num_experts_ + rank; }

  void add(std::size_t from, std::size_t to) {
    arcs_of_[from].push_back(arcs_.size());
    arcs_.push_back({to, 0});
    arcs_of_[to].push_back(arcs_.size());
    arcs_.push_back({from, 0});
  }

  bool find_levels() {
    level_.assign(arcs_of_.size(), -1);
    next_.assign(arcs_of_.size(), 0);
    level_[source] = 0;
    queue_.assign(1, source);
    for (std::size_t i = 0; i < queue_.size(); ++i) {
      for (std::size_t a : arcs_of_[queue_[i]]) {
        if (arcs_[a].room == 0 || level_[arcs_[a].to] >= 0) continue;
        level_[arcs_[a].to] = level_[queue_[i]] + 1;
        queue_.push_back(arcs_[a].to);
      }
    }
    return level_[sink] >= 0;
  }

  std::int64_t push(std::size_t at, std::int64_t most) {
    if (at == sink) return most;
    std::int64_t sent = 0;
    for (std::size_t& i = next_[at]; i < arcs_of_[at].size(); ++i) {
      Arc& arc = arcs_[arcs_of_[at][i]];
      if (arc.room == 0 || level_[arc.to] != level_[at] + 1) continue;
      const std::int64_t more = push(arc.to, std::min(most - sent, arc.room));
      arc.room -= more;
      arcs_[arcs_of_[at][i] ^ 1].room += more;
      sent += more;
      if (sent == most) break;
    }
    return sent;
  }

  std::size_t num_experts_, num_ranks_;
  std::vector<Arc> arcs_;  ///< Each followed by its reverse.
  std::vector<std::vector<std::size_t>> arcs_of_;
  std::vector<std::size_t> slot_arcs_;
  std::size_t first_rank_arc_ = 0;
  std::vector<int> level_;
  std::vector<std::size_t> next_, queue_;
};

}  // namespace

std::unique_ptr<PlainSplit> make_dinic_split(std::span<const ExpertId> row, std::int32_t num_experts,
                                             const Topology& topology) {
  return std::make_unique<DinicSplit>(row, num_experts, topology);
}

}  // namespace trimtab::bench
