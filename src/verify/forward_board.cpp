// SPDX-License-Identifier: Apache-2.0
#include "verify/forward_board.hpp"

namespace trimtab::verify {

/// What is kept of an older forward in the same place is overwritten; a newer one stays.
std::optional<Epoch> ForwardBoard::serve(std::uint32_t view, Forward forward, Epoch epoch) noexcept {
  const std::uint64_t key = pack(view, forward) + 1;
  const std::uint64_t mine = (key << epoch_bits) + epoch.value();
  std::atomic<std::uint64_t>& place = served_[forward.value() % num_kept];
  std::uint64_t found = place.load();
  while (found >> epoch_bits < key) {
    if (place.compare_exchange_weak(found, mine)) return std::nullopt;
  }
  if (found >> epoch_bits > key || found == mine) return std::nullopt;
  return Epoch{found & ((std::uint64_t{1} << epoch_bits) - 1)};
}

}  // namespace trimtab::verify
