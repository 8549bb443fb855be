// SPDX-License-Identifier: Apache-2.0
#include "migrate/kept_bundles.hpp"

#include <trimtab/weights/expert_store.hpp>

#include <algorithm>
#include <utility>

namespace trimtab {

std::vector<KeptExpert> choose_kept(std::span<const LayerExpert> lost, std::span<const KeptExpert> candidates,
                                    const Topology& topology) {
  std::vector<KeptExpert> kept;
  for (const LayerExpert& name : lost) {
    const auto found = std::ranges::find_if(candidates, [&](const KeptExpert& candidate) {
      return candidate.layer == name.layer && candidate.expert == name.expert &&
             topology.is_alive(candidate.slot);
    });
    if (found != candidates.end()) kept.push_back(*found);
  }
  return kept;
}

void KeptBundles::add(const KeptExpert& name, std::vector<std::byte> bytes) {
  const std::uint64_t checksum = ExpertStore::checksum(name.layer, bytes, name.expert);
  bundles_.push_back({name, std::make_shared<std::vector<std::byte>>(std::move(bytes)), checksum});
}

const KeptBundles::Bundle* KeptBundles::find(LayerId layer, ExpertId expert, SlotId slot) const noexcept {
  const auto found = std::ranges::find(bundles_, KeptExpert{layer, expert, slot}, &Bundle::name);
  return found == bundles_.end() ? nullptr : &*found;
}

void KeptBundles::keep_only(std::span<const KeptExpert> names) {
  std::erase_if(bundles_,
                [&](const Bundle& bundle) { return std::ranges::find(names, bundle.name) == names.end(); });
}

std::size_t KeptBundles::size_bytes() const noexcept {
  std::size_t sum = 0;
  for (const Bundle& bundle : bundles_) sum += bundle.bytes->size();
  return sum;
}

}  // namespace trimtab
