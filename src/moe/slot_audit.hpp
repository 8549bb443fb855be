// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/topology.hpp>
#include <trimtab/migrate/engine.hpp>
#include <trimtab/weights/expert_store.hpp>

#include <cstdint>
#include <vector>

namespace trimtab::moe {

/// Watches one rank's slots from outside the engine: which ones commits named, and whether any other changed
/// its bytes (M4). It reads the storage itself, padding included, not through the store's workspaces: these
/// may be in use. Borrows the store, whose tensors lie in host memory. Same thread as the engine.
class SlotAudit final : public EngineObserver {
 public:
  explicit SlotAudit(const ExpertStore& store);

  /// Remembers the bytes of all slots and forgets which were named.
  void begin();
  /// Slots that no commit since `begin` named and whose bytes are other than then.
  [[nodiscard]] std::int64_t count_unnamed_changes() const;

  void on_commit(const Step& step, Epoch epoch) override;

  /// Whether a commit ever put a new expert into this slot of this rank.
  [[nodiscard]] bool was_moved(LayerId layer, SlotId slot) const noexcept {
    return was_moved_[index(layer, slot)];
  }

 private:
  [[nodiscard]] std::size_t index(LayerId layer, SlotId slot) const noexcept;
  [[nodiscard]] std::vector<std::uint64_t> hash_slots() const;

  const ExpertStore& store_;
  std::vector<std::uint64_t> hashes_;  ///< [layers][slots of this rank]
  std::vector<bool> was_named_;
  std::vector<bool> was_moved_;
};

}  // namespace trimtab::moe
