// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/weights/checkpoint.hpp>

#include "checkpoint_files.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trimtab {

/// Where one bundle lies: its tensors, or the parts of them, in the store's order.
struct CatalogueEntry {
  std::vector<TensorPlace> parts;
  std::size_t size_bytes = 0;
  std::optional<std::uint64_t> checksum;
};

/// Which bundles of a store a checkpoint's files have. Points into the files, which must stay.
class CheckpointCatalogue {
 public:
  /// As `CheckpointSource::open` says; `path` is for messages.
  static Result<CheckpointCatalogue> make(const std::string& path, const CheckpointFiles& files,
                                          const ExpertStore& store, const CheckpointNames& names);

  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  [[nodiscard]] const CatalogueEntry* find(LayerId layer, ExpertId expert) const noexcept;

 private:
  std::map<std::pair<LayerId, ExpertId>, CatalogueEntry> entries_;
};

}  // namespace trimtab
