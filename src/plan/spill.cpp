// SPDX-License-Identifier: Apache-2.0
#include "plan/spill.hpp"

#include <numeric>

namespace trimtab {

double spilled_share(LayerLoads loads, Row row, std::span<const NodeId> home, const Topology& topology) {
  std::vector<std::int32_t> copies(loads.size(), 0);
  std::vector<std::int32_t> abroad(loads.size(), 0);
  for (SlotId slot : ids<SlotId>(row.size())) {
    const ExpertId expert = row[slot.index()];
    if (expert == no_expert || !topology.is_alive(slot)) continue;
    ++copies[expert.index()];
    if (topology.node_of(topology.rank_of(slot)) != home[expert.index()]) ++abroad[expert.index()];
  }
  double spilled = 0.0;
  for (std::size_t e = 0; e < loads.size(); ++e) spilled += loads[e] / copies[e] * abroad[e];
  const double total = std::accumulate(loads.begin(), loads.end(), 0.0);
  return total > 0.0 ? spilled / total : 0.0;
}

SpillLedger::SpillLedger(const SpillLimit* limit, std::span<const LoadView> views)
    : limit_(limit), views_(views) {
  if (limit == nullptr) return;
  const Packing& packing = views.front().packing;
  abroad_.assign(limit->home.size(), 0);
  for (SlotId slot : ids<SlotId>(packing.row().size())) {
    const ExpertId expert = packing.expert_at(slot);
    if (expert != no_expert) abroad_[expert.index()] += is_abroad(expert, slot);
  }
  for (const LoadView& view : views) {
    double spilled = 0.0;
    double total = 0.0;
    for (ExpertId e : ids<ExpertId>(abroad_.size())) {
      spilled += view.packing.share(e) * abroad_[e.index()];
      total += view.packing.load(e);
    }
    spilled_.push_back(spilled);
    total_.push_back(total);
  }
}

std::int32_t SpillLedger::is_abroad(ExpertId expert, SlotId slot) const {
  const Packing& packing = views_.front().packing;
  return packing.topology().node_of(packing.rank_of(slot)) != limit_->home[expert.index()] ? 1 : 0;
}

SpillLedger::Change SpillLedger::after_swap(SlotId a, SlotId b) const {
  const ExpertId at_a = views_.front().packing.expert_at(a);
  const ExpertId at_b = views_.front().packing.expert_at(b);
  return {{at_a, is_abroad(at_a, b) - is_abroad(at_a, a), 0},
          {at_b, is_abroad(at_b, a) - is_abroad(at_b, b), 0}};
}

SpillLedger::Change SpillLedger::after_put(SlotId slot, ExpertId expert) const {
  const ExpertId old = views_.front().packing.expert_at(slot);
  return {{expert, is_abroad(expert, slot), 1}, {old, -is_abroad(old, slot), -1}};
}

double SpillLedger::spill_change(const LoadView& view, const Change::OfExpert& of) const {
  const std::int32_t abroad = abroad_[of.expert.index()];
  const double share = view.packing.load(of.expert) / (view.packing.copies(of.expert) + of.copies);
  return share * (abroad + of.abroad) - view.packing.share(of.expert) * abroad;
}

std::optional<double> SpillLedger::price(const Change& change) const {
  double price = 0.0;
  for (std::size_t v = 0; v < views_.size(); ++v) {
    const double more = spill_change(views_[v], change.first) + spill_change(views_[v], change.second);
    if (more > 0.0 && spilled_[v] + more > limit_->share * total_[v]) return std::nullopt;
    price += views_[v].weight * more / total_[v];
  }
  return price;
}

void SpillLedger::take(const Change& change) {
  for (std::size_t v = 0; v < views_.size(); ++v) {
    spilled_[v] += spill_change(views_[v], change.first) + spill_change(views_[v], change.second);
  }
  abroad_[change.first.expert.index()] += change.first.abroad;
  abroad_[change.second.expert.index()] += change.second.abroad;
}

}  // namespace trimtab
