// SPDX-License-Identifier: Apache-2.0
#include "migrate/cut_links.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>

namespace trimtab {
namespace {

bool is_cut(Rank a, Rank b, const std::map<Rank, Unheard>& unheard) {
  const auto of_a = unheard.find(a);
  const auto of_b = unheard.find(b);
  return of_a != unheard.end() && of_b != unheard.end() && of_a->second.forward == of_b->second.forward &&
         of_a->second.peers.contains(b) && of_b->second.peers.contains(a);
}

/// Of those that have any.
std::optional<Rank> with_most_cut_links(const std::vector<Rank>& ranks,
                                        const std::map<Rank, Unheard>& unheard) {
  std::optional<Rank> worst;
  std::int64_t most = 0;
  for (Rank rank : ranks) {
    const auto cut = std::ranges::count_if(ranks, [&](Rank other) { return is_cut(rank, other, unheard); });
    if (cut == 0 || cut < most) continue;
    worst = rank;
    most = cut;
  }
  return worst;
}

}  // namespace

RankSet without_cut_links(RankSet ranks, const std::map<Rank, Unheard>& unheard) {
  while (const std::optional<Rank> worst = with_most_cut_links(ranks.ranks(), unheard)) ranks.erase(*worst);
  return ranks;
}

}  // namespace trimtab
