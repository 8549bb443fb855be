// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/route/routing_table.hpp>

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace trimtab {

class TablePublisher;

/// A batch's hold on one routing table: while it lives, the table stays valid and counts as in use.
/// Move-only; belongs to the thread of its TableReader, which must outlive it.
class TableLease {
 public:
  TableLease(TableLease&& other) noexcept
      : slot_(std::exchange(other.slot_, nullptr)), table_(other.table_) {}
  TableLease& operator=(TableLease&&) = delete;
  ~TableLease();

  const RoutingTable& operator*() const noexcept { return *table_; }
  const RoutingTable* operator->() const noexcept { return table_; }

 private:
  friend class TableReader;
  TableLease(std::atomic<const RoutingTable*>* slot, const RoutingTable* table) noexcept
      : slot_(slot), table_(table) {}

  std::atomic<const RoutingTable*>* slot_;
  const RoutingTable* table_;
};

/// One thread's way to the current table. Holds one lease at a time. Move-only; the publisher must outlive
/// it.
class TableReader {
 public:
  TableReader(TableReader&&) noexcept = default;
  TableReader& operator=(TableReader&&) = delete;
  ~TableReader();

  /// The table published last. Wait-free but for a publication at the same moment, after which it looks
  /// again. Precondition: the reader's previous lease is gone.
  [[nodiscard]] TableLease acquire() noexcept;

 private:
  friend class TablePublisher;
  struct Hazard;
  TableReader(TablePublisher* publisher, Hazard* hazard) noexcept;
  struct Release {
    void operator()(Hazard* hazard) const noexcept;
  };

  TablePublisher* publisher_;
  std::unique_ptr<Hazard, Release> hazard_;
};

/// Holds the current routing table and swaps it by one atomic pointer store. Batches in flight keep the table
/// they began with.
///
/// Reclamation is by hazard pointers (Michael, 2004): each reader shows the table it uses in a slot of its
/// own; a replaced table is freed by the next `publish`, `is_idle` or `num_retired` that finds no slot
/// showing it. Threads: `acquire` on any reader's thread at any time; all other calls from any thread.
class TablePublisher {
 public:
  explicit TablePublisher(RoutingTable first);
  ~TablePublisher();
  TablePublisher(const TablePublisher&) = delete;
  TablePublisher& operator=(const TablePublisher&) = delete;

  [[nodiscard]] TableReader make_reader();

  /// Makes `next` the current table for every later `acquire`.
  /// @return `version_mismatch` with both identities, and no effect, unless `next` is newer: a higher epoch,
  /// or the same epoch
  ///         and a higher split version.
  Status publish(RoutingTable next);

  /// Whether no reader holds a lease on any table, current or replaced: every admitted batch has finished its
  /// part.
  [[nodiscard]] bool is_idle() const noexcept;

  [[nodiscard]] TableIdentity identity() const noexcept;

  /// Replaced tables that a reader still holds.
  [[nodiscard]] std::size_t num_retired() const;

 private:
  friend class TableReader;

  void reclaim() const noexcept;

  std::atomic<const RoutingTable*> current_;
  mutable std::mutex mutex_;                                          ///< Guards the three below.
  std::unique_ptr<const RoutingTable> owned_;                         ///< What current_ points to.
  mutable std::vector<std::unique_ptr<const RoutingTable>> retired_;  ///< Freed by queries too.
  std::vector<std::unique_ptr<TableReader::Hazard>> hazards_;
};

}  // namespace trimtab
