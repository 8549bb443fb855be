// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/placement.hpp>
#include <trimtab/core/topology.hpp>
#include <trimtab/migrate/program.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace trimtab {

/// For each of `lost` the first of `candidates` with its layer and expert whose slot is live, if any.
[[nodiscard]] std::vector<KeptExpert> choose_kept(std::span<const LayerExpert> lost,
                                                  std::span<const KeptExpert> candidates,
                                                  const Topology& topology);

/// The bundles that one rank has kept, in memory beside staging. Not thread-safe.
class KeptBundles {
 public:
  struct Bundle {
    KeptExpert name;
    std::shared_ptr<std::vector<std::byte>> bytes;  ///< Laid out as in staging; shared with sends under way.
    std::uint64_t checksum = 0;                     ///< Taken when it was kept.
  };

  void add(const KeptExpert& name, std::vector<std::byte> bytes);
  /// Null: not kept here.
  [[nodiscard]] const Bundle* find(LayerId layer, ExpertId expert, SlotId slot) const noexcept;
  /// Forgets all others.
  void keep_only(std::span<const KeptExpert> names);
  [[nodiscard]] std::size_t size_bytes() const noexcept;

 private:
  std::vector<Bundle> bundles_;
};

}  // namespace trimtab
