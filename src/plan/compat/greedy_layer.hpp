// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/plan/compat.hpp>

#include "plan/compat/sums.hpp"
#include "plan/compat/torch_sort.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace trimtab {

/// Arithmetic of DeepSeek's planner in torch 1.13: single precision throughout, and torch's order of equal
/// loads.
struct TorchRules {
  using Value = float;
  static float sum(std::span<const float> loads) { return sum_like_torch(loads); }
  TorchSort sort;  ///< Largest value first.
};

/// Arithmetic of vLLM's planner in numpy: single precision in, double from the first division on. numpy
/// leaves the order of equal loads open; here it is ascending, as numpy's is up to 16 items.
struct NumpyRules {
  struct Sort {
    void operator()(std::span<Key<double>> items) const;
  };
  using Value = double;
  static double sum(std::span<const float> loads) { return sum_like_numpy(loads); }
  Sort sort;
};

/// Plans single layers as DeepSeek's and vLLM's planners do: groups onto nodes, then in each node replicas by
/// highest average and replicas onto ranks, heaviest first onto the least loaded rank with room. One object
/// for each thread: it owns the scratch memory, O(slots + experts).
template <class Rules>
class GreedyLayer {
 public:
  using Value = typename Rules::Value;

  /// Precondition: checked; groups divide experts, nodes divide groups and ranks, ranks divide slots >=
  /// experts.
  GreedyLayer(std::int32_t num_experts, const EplbShape& shape);

  void plan(std::span<const double> loads);

  /// Results of the last plan(), by SlotId, SlotId and ExpertId.
  [[nodiscard]] std::span<const ExpertId> experts() const noexcept { return experts_; }
  /// 0 for the first copy of an expert, then in the order in which copies were made.
  [[nodiscard]] std::span<const std::int32_t> copies() const noexcept { return copies_; }
  [[nodiscard]] std::span<const std::int32_t> counts() const noexcept { return counts_; }

 private:
  struct Replica {
    std::uint32_t position;  ///< Of its expert, in the node.
    std::int32_t copy;
  };

  struct Pack {
    std::uint32_t next;  ///< Free place.
    std::uint32_t last;  ///< Behind its places.
  };

  void order_groups();
  void gather_node(std::size_t node);
  void replicate();
  void pack_node(std::size_t node);

  /// Calls `place(owner, place)` for each of items_; places are numbered pack by pack, and every pack gets
  /// equally many.
  template <class Place>
  void pack(std::size_t num_packs, Place place);

  std::size_t num_groups_, num_nodes_, group_size_;
  std::size_t node_experts_, node_slots_, node_ranks_;

  std::vector<float> loads_;               ///< By ExpertId.
  std::vector<std::size_t> groups_;        ///< In the order of nodes, and in a node as they were placed.
  std::vector<ExpertId> node_ids_;         ///< Experts of the node at hand, by position.
  std::vector<float> node_loads_;          ///< By position.
  std::vector<std::int32_t> node_counts_;  ///< By position.
  std::vector<Key<Value>> next_;           ///< By position: its key when it has one copy more.
  std::vector<Replica> replicas_;          ///< One of each expert first, then as they are added.
  std::vector<Key<Value>> items_;          ///< To be packed: load, and group or replica.
  Rules rules_;
  WinnerTree<Key<Value>> tree_;
  std::vector<Pack> packs_;

  std::vector<ExpertId> experts_;
  std::vector<std::int32_t> copies_;
  std::vector<std::int32_t> counts_;
};

extern template class GreedyLayer<TorchRules>;
extern template class GreedyLayer<NumpyRules>;

}  // namespace trimtab
