// SPDX-License-Identifier: Apache-2.0
#include "moe/slot_audit.hpp"

#include <trimtab/core/checksum.hpp>

namespace trimtab::moe {
namespace {

/// What one slot takes in storage, padding included.
std::size_t stored_bytes(const TensorSpec& tensor) noexcept {
  if (tensor.layout.format == Format::fractal_nz) return tensor.stride_bytes;
  return (tensor.layout.rows - 1) * row_pitch(tensor) + row_bytes(tensor);
}

std::uint64_t hash_slot(std::span<const TensorSpec> tensors, std::size_t local) noexcept {
  Checksum running;
  for (const TensorSpec& tensor : tensors) {
    running.update({tensor.base + local * tensor.stride_bytes, stored_bytes(tensor)});
  }
  return running.digest();
}

}  // namespace

SlotAudit::SlotAudit(const ExpertStore& store)
    : store_(store),
      was_named_(static_cast<std::size_t>(store.num_layers()) * store.slots().size(), false),
      was_moved_(was_named_) {}

void SlotAudit::begin() {
  hashes_ = hash_slots();
  was_named_.assign(was_named_.size(), false);
}

std::int64_t SlotAudit::count_unnamed_changes() const {
  const std::vector<std::uint64_t> now = hash_slots();
  std::int64_t changes = 0;
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (!was_named_[i] && now[i] != hashes_[i]) ++changes;
  }
  return changes;
}

void SlotAudit::on_commit(const Step& step, Epoch /*epoch*/) {
  for (const Move& move : step.moves) {
    if (!store_.slots().contains(move.destination)) continue;
    was_named_[index(move.layer, move.destination)] = true;
    was_moved_[index(move.layer, move.destination)] = true;
  }
  for (const Vacation& vacation : step.vacations) {
    if (store_.slots().contains(vacation.slot)) was_named_[index(vacation.layer, vacation.slot)] = true;
  }
}

std::size_t SlotAudit::index(LayerId layer, SlotId slot) const noexcept {
  return layer.index() * store_.slots().size() + slot.index() - store_.slots().first().index();
}

std::vector<std::uint64_t> SlotAudit::hash_slots() const {
  std::vector<std::uint64_t> hashes;
  hashes.reserve(was_named_.size());
  for (LayerId layer : ids<LayerId>(store_.num_layers())) {
    for (std::size_t local = 0; local < store_.slots().size(); ++local) {
      hashes.push_back(hash_slot(store_.tensors(layer), local));
    }
  }
  return hashes;
}

}  // namespace trimtab::moe
