// SPDX-License-Identifier: Apache-2.0
#include "plan/pack.hpp"

#include "plan/repair.hpp"

#include <algorithm>

namespace trimtab {
namespace {

/// Ranks with room, the one of least pressure on top. Pressures in it are current: a rank leaves the queue
/// before anything is put on it.
class RankQueue {
 public:
  RankQueue(const RankContents& contents, const Region& region) : contents_(contents) {
    for (Rank rank : region.ranks) push(rank);
  }

  [[nodiscard]] bool empty() const noexcept { return heap_.empty(); }

  void push(Rank rank) {
    heap_.push_back({contents_.pressure(rank), rank});
    std::push_heap(heap_.begin(), heap_.end(), is_fuller);
  }

  Rank pop() {
    std::pop_heap(heap_.begin(), heap_.end(), is_fuller);
    const Rank rank = heap_.back().rank;
    heap_.pop_back();
    return rank;
  }

 private:
  struct Entry {
    double pressure;
    Rank rank;
  };
  static bool is_fuller(const Entry& a, const Entry& b) {
    if (a.pressure != b.pressure) return a.pressure > b.pressure;
    return a.rank > b.rank;
  }

  const RankContents& contents_;
  std::vector<Entry> heap_;
};

std::vector<ExpertId> heaviest_first(const RankContents& contents, const Region& region) {
  std::vector<ExpertId> order = region.experts;
  std::sort(order.begin(), order.end(), [&](ExpertId a, ExpertId b) {
    if (contents.share(a) != contents.share(b)) return contents.share(a) > contents.share(b);
    return a < b;
  });
  return order;
}

/// A rank taken from the queue holds `expert` afterwards, so it waits in `taken` until all copies lie.
void place_copies(RankContents& contents, const Region& region, RankQueue& queue, ExpertId expert,
                  std::int32_t copies, std::vector<Rank>& taken) {
  taken.clear();
  for (std::int32_t placed = 0; placed < copies; ++placed) {
    if (queue.empty()) {
      make_room_by_chain(contents, region, expert);
      continue;
    }
    taken.push_back(queue.pop());
    contents.add(taken.back(), expert);
  }
  for (Rank rank : taken) {
    if (contents.has_room(rank)) queue.push(rank);
  }
}

}  // namespace

void pack_heaviest_first(RankContents& contents, const Region& region, std::span<const std::int32_t> counts) {
  RankQueue queue(contents, region);
  std::vector<Rank> taken;
  for (ExpertId expert : heaviest_first(contents, region)) {
    place_copies(contents, region, queue, expert, counts[expert.index()], taken);
  }
}

Rank fullest_rank(const RankContents& contents, std::span<const Rank> ranks) {
  Rank fullest = ranks.front();
  for (Rank rank : ranks) {
    if (contents.pressure(rank) > contents.pressure(fullest)) fullest = rank;
  }
  return fullest;
}

}  // namespace trimtab
