// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/assert.hpp>
#include <trimtab/route/table_publisher.hpp>

#include "route/identity.hpp"
#include "route/protect.hpp"

#include <algorithm>
#include <utility>

namespace trimtab {
/// A cache line of its own: readers write theirs at every batch.
struct alignas(64) TableReader::Hazard {
  std::atomic<const RoutingTable*> table{nullptr};
  std::atomic<bool> is_claimed{true};
};

TableLease::~TableLease() {
  // Release: whoever sees the slot empty also sees everything the batch did under the lease.
  if (slot_ != nullptr) slot_->store(nullptr, std::memory_order_release);
}

TableReader::TableReader(TablePublisher* publisher, Hazard* hazard) noexcept
    : publisher_(publisher), hazard_(hazard) {}

TableReader::~TableReader() = default;

void TableReader::Release::operator()(Hazard* hazard) const noexcept {
  TRIMTAB_ASSERT(hazard->table.load(std::memory_order_relaxed) == nullptr);  // A lease outlives its reader.
  hazard->is_claimed.store(false, std::memory_order_release);
}

TableLease TableReader::acquire() noexcept {
  TRIMTAB_ASSERT(hazard_->table.load(std::memory_order_relaxed) == nullptr);
  return TableLease(&hazard_->table, protect(publisher_->current_, hazard_->table));
}

TablePublisher::TablePublisher(RoutingTable first)
    : owned_(std::make_unique<const RoutingTable>(std::move(first))) {
  current_.store(owned_.get(), std::memory_order_release);
}

TablePublisher::~TablePublisher() {
  for (const auto& hazard : hazards_) {
    TRIMTAB_ASSERT(!hazard->is_claimed.load(std::memory_order_acquire));  // A reader outlives the publisher.
  }
}

TableReader TablePublisher::make_reader() {
  const std::lock_guard lock(mutex_);
  for (const auto& hazard : hazards_) {
    if (!hazard->is_claimed.exchange(true, std::memory_order_acquire)) return {this, hazard.get()};
  }
  hazards_.push_back(std::make_unique<TableReader::Hazard>());
  return {this, hazards_.back().get()};
}

Status TablePublisher::publish(RoutingTable next) {
  const std::lock_guard lock(mutex_);
  if (Status newer = check_newer(next.identity(), owned_->identity()); !newer) return newer;
  auto fresh = std::make_unique<const RoutingTable>(std::move(next));
  retired_.push_back(nullptr);  // What can throw is done before readers see the table.
  current_.store(fresh.get(), std::memory_order_seq_cst);
  retired_.back() = std::exchange(owned_, std::move(fresh));
  reclaim();
  return {};
}

bool TablePublisher::is_idle() const noexcept {
  const std::lock_guard lock(mutex_);
  reclaim();
  return std::all_of(hazards_.begin(), hazards_.end(), [](const auto& hazard) {
    return hazard->table.load(std::memory_order_seq_cst) == nullptr;
  });
}

TableIdentity TablePublisher::identity() const noexcept {
  const std::lock_guard lock(mutex_);
  return owned_->identity();
}

std::size_t TablePublisher::num_retired() const {
  const std::lock_guard lock(mutex_);
  reclaim();
  return retired_.size();
}

void TablePublisher::reclaim() const noexcept {
  std::erase_if(retired_, [&](const auto& table) {
    return std::none_of(hazards_.begin(), hazards_.end(), [&](const auto& hazard) {
      return hazard->table.load(std::memory_order_seq_cst) == table.get();
    });
  });
}

}  // namespace trimtab
