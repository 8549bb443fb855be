// SPDX-License-Identifier: Apache-2.0
#include "verify/traffic.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trimtab::verify {

std::string Traffic::take_turn(std::size_t rank, std::uint64_t tick, Random& random) {
  const Forward forward = next_[rank];
  if (ranks_[rank]->take_turn(forward) != CheckedRank::Turn::began) return "";
  next_[rank] = forward.next();
  in_flight_[rank].push_back(
      {forward, tick + static_cast<std::uint64_t>(random.within(0, pace_.max_batch_ticks))});
  const Epoch epoch = ranks_[rank]->newest_epoch();
  const Epoch first = epochs_.emplace(forward, epoch).first->second;
  if (first == epoch) return "";
  return fmt::format("forward {}: rank {} serves it under epoch {}, another rank under {}", forward.value(),
                     rank, epoch.value(), first.value());
}

bool Traffic::has_begun_everywhere(Forward forward) const {
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    if (next_[r] <= forward && !ranks_[r]->is_in_doubt()) return false;
  }
  return true;
}

void Traffic::end_batches(std::size_t rank, std::uint64_t tick) {
  std::deque<Batch>& batches = in_flight_[rank];
  while (!batches.empty() && batches.front().ends_at <= tick &&
         has_begun_everywhere(batches.front().forward)) {
    ranks_[rank]->end_batch();
    epochs_.erase(epochs_.begin(), epochs_.lower_bound(std::ranges::min(next_)));
    batches.pop_front();
  }
}

void Traffic::skip_forwards(Random& random) {
  if (!random.one_in(8)) return;
  const bool is_quiet = std::ranges::all_of(in_flight_, [](const auto& batches) { return batches.empty(); });
  const bool is_level = std::ranges::all_of(next_, [&](Forward next) { return next == next_.front(); });
  if (!is_quiet || !is_level) return;
  const Forward further{next_.front().value() + 1 + random.below(5)};
  std::ranges::fill(next_, further);
}

}  // namespace trimtab::verify
