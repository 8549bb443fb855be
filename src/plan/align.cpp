// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/assert.hpp>
#include <trimtab/plan/align.hpp>

#include "plan/align_rank.hpp"

#include <algorithm>
#include <vector>

namespace trimtab {

void align_rank(std::span<const ExpertId> current, std::span<ExpertId> row) {
  std::vector<ExpertId> coming(row.begin(), row.end());
  std::vector<bool> is_kept(row.size(), false);
  for (std::size_t s = 0; s < std::min(row.size(), current.size()); ++s) {
    const auto found = std::find(coming.begin(), coming.end(), current[s]);
    if (found == coming.end()) continue;
    coming.erase(found);
    row[s] = current[s];
    is_kept[s] = true;
  }
  auto next = coming.begin();
  for (std::size_t s = 0; s < row.size(); ++s) {
    if (!is_kept[s]) row[s] = *next++;
  }
}

Placement align_slots(const Placement& current, const Placement& next, const Topology& topology) {
  TRIMTAB_ASSERT(current.num_layers() == next.num_layers() && current.num_slots() == next.num_slots() &&
                 current.num_experts() == next.num_experts() && next.num_slots() == topology.num_slots());
  std::vector<ExpertId> map;
  for (LayerId layer : ids<LayerId>(next.num_layers())) {
    std::vector<ExpertId> row(next.layer(layer).begin(), next.layer(layer).end());
    for (Rank rank : ids<Rank>(topology.num_ranks())) {
      const auto first = topology.slots_of(rank).first().index();
      const auto count = topology.slots_of(rank).size();
      align_rank(current.layer(layer).subspan(first, count), std::span(row).subspan(first, count));
    }
    map.insert(map.end(), row.begin(), row.end());
  }
  Result<Placement> aligned =
      Placement::make(next.num_layers(), next.num_slots(), next.num_experts(), std::move(map));
  TRIMTAB_ASSERT(aligned.has_value());
  return *std::move(aligned);
}

}  // namespace trimtab
