// SPDX-License-Identifier: Apache-2.0
#include "plan/compat/greedy_layer.hpp"

namespace trimtab {
namespace {

std::size_t size_of(std::int32_t count) { return static_cast<std::size_t>(count); }

}  // namespace

void NumpyRules::Sort::operator()(std::span<Key<double>> items) const {
  std::sort(items.begin(), items.end(),
            [](const auto& a, const auto& b) { return a.bits != b.bits ? a.bits > b.bits : a.who < b.who; });
}

template <class Rules>
GreedyLayer<Rules>::GreedyLayer(std::int32_t num_experts, const EplbShape& shape)
    : num_groups_(size_of(shape.num_groups)),
      num_nodes_(size_of(shape.num_nodes)),
      group_size_(size_of(num_experts) / num_groups_),
      node_experts_(size_of(num_experts) / num_nodes_),
      node_slots_(size_of(shape.num_slots) / num_nodes_),
      node_ranks_(size_of(shape.num_ranks) / num_nodes_),
      loads_(size_of(num_experts)),
      groups_(num_groups_),
      node_ids_(node_experts_),
      node_loads_(node_experts_),
      node_counts_(node_experts_),
      next_(node_experts_),
      replicas_(node_slots_),
      items_(std::max(num_groups_, node_slots_)),
      packs_(std::max(num_nodes_, node_ranks_)),
      experts_(size_of(shape.num_slots)),
      copies_(size_of(shape.num_slots)),
      counts_(size_of(num_experts)) {}

template <class Rules>
void GreedyLayer<Rules>::plan(std::span<const double> loads) {
  // Adding zero turns -0.0, whose bits would come last, into 0.0.
  std::transform(loads.begin(), loads.end(), loads_.begin(),
                 [](double load) { return static_cast<float>(load) + 0.0F; });
  order_groups();
  for (std::size_t node = 0; node < num_nodes_; ++node) {
    gather_node(node);
    replicate();
    pack_node(node);
  }
}

template <class Rules>
template <class Place>
void GreedyLayer<Rules>::pack(std::size_t num_packs, Place place) {
  // The order of the input, not of the loads: with one item in each pack nothing is sorted.
  if (items_.size() == num_packs) {
    for (std::size_t i = 0; i < items_.size(); ++i) place(i, i);
    return;
  }
  rules_.sort(items_);
  const auto items_per_pack = static_cast<std::uint32_t>(items_.size() / num_packs);
  for (std::uint32_t i = 0; i < num_packs; ++i) packs_[i] = {i * items_per_pack, (i + 1) * items_per_pack};
  // While loads are positive, an empty pack is the lightest: the first items take one each.
  std::size_t started = 0;
  for (; started < num_packs && items_[started].value() > Value{0}; ++started) {
    place(items_[started].owner(), packs_[started].next++);
  }
  tree_.assign(num_packs, [&](std::size_t i) {
    const Value load = i < started ? items_[i].value() : Value{0};
    return Key<Value>::smallest_first(load, static_cast<std::uint32_t>(i));
  });
  Key<Value> lightest = tree_.winner();
  for (const Key<Value> item : std::span(items_).subspan(started)) {
    const std::uint32_t owner = lightest.owner();
    Pack& pack = packs_[owner];
    place(item.owner(), pack.next);
    ++pack.next;
    const Key<Value> heavier = Key<Value>::smallest_first(lightest.value() + item.value(), owner);
    lightest = tree_.replace(owner, pack.next == pack.last ? Key<Value>::last() : heavier);
  }
}

template <class Rules>
void GreedyLayer<Rules>::order_groups() {
  items_.resize(num_groups_);
  if (num_groups_ != num_nodes_) {
    for (std::size_t g = 0; g < num_groups_; ++g) {
      const auto group = std::span(loads_).subspan(g * group_size_, group_size_);
      items_[g] = Key<Value>::smallest_first(Rules::sum(group), static_cast<std::uint32_t>(g));
    }
  }
  pack(num_nodes_, [&](std::size_t group, std::size_t place) { groups_[place] = group; });
}

template <class Rules>
void GreedyLayer<Rules>::gather_node(std::size_t node) {
  const std::size_t groups_per_node = num_groups_ / num_nodes_;
  std::size_t position = 0;
  for (std::size_t group : std::span(groups_).subspan(node * groups_per_node, groups_per_node)) {
    for (std::size_t e = group * group_size_; e < (group + 1) * group_size_; ++e, ++position) {
      node_ids_[position] = ExpertId{static_cast<ExpertId::rep>(e)};
      node_loads_[position] = loads_[e];
    }
  }
}

template <class Rules>
void GreedyLayer<Rules>::replicate() {
  std::fill(node_counts_.begin(), node_counts_.end(), 1);
  for (std::size_t i = 0; i < node_experts_; ++i) replicas_[i] = {static_cast<std::uint32_t>(i), 0};
  if (node_slots_ == node_experts_) return;
  const auto key = [&](std::size_t i, std::int32_t count) {
    const Value average = Value{node_loads_[i]} / static_cast<Value>(count);
    return Key<Value>::largest_first(average, static_cast<std::uint32_t>(i));
  };
  tree_.assign(node_experts_, [&](std::size_t i) { return key(i, 1); });
  // Divided ahead of time, so that no round waits for a division.
  for (std::size_t i = 0; i < node_experts_; ++i) next_[i] = key(i, 2);
  std::uint32_t most_loaded = tree_.winner().owner();
  for (std::size_t i = node_experts_; i < node_slots_; ++i) {
    const std::uint32_t raised = most_loaded;
    most_loaded = tree_.replace(raised, next_[raised]).owner();
    const std::int32_t count = node_counts_[raised]++;
    replicas_[i] = {raised, count};
    next_[raised] = key(raised, count + 2);
  }
}

template <class Rules>
void GreedyLayer<Rules>::pack_node(std::size_t node) {
  items_.resize(node_slots_);
  for (std::size_t i = 0; i < node_slots_; ++i) {
    const std::uint32_t position = replicas_[i].position;
    const Value share = Value{node_loads_[position]} / static_cast<Value>(node_counts_[position]);
    items_[i] = Key<Value>::smallest_first(share, static_cast<std::uint32_t>(i));
  }
  pack(node_ranks_, [&](std::size_t replica, std::size_t place) {
    const std::size_t slot = node * node_slots_ + place;
    experts_[slot] = node_ids_[replicas_[replica].position];
    copies_[slot] = replicas_[replica].copy;
  });
  for (std::size_t i = 0; i < node_experts_; ++i) counts_[node_ids_[i].index()] = node_counts_[i];
}

template class GreedyLayer<TorchRules>;
template class GreedyLayer<NumpyRules>;

}  // namespace trimtab
