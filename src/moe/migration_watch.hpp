// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/migrate/engine.hpp>
#include <trimtab/weights/expert_store.hpp>

#include <vector>

#include "moe/migration_report.hpp"
#include "moe/slot_audit.hpp"
#include "moe/transfer_faults.hpp"

namespace trimtab::moe {

/// All that a rank of the service wants to be told by its engine. Same thread as the engine.
class MigrationWatch final : public EngineObserver {
 public:
  /// Borrows both.
  MigrationWatch(const ExpertStore& store, TransferFaults& faults) : audit_(store), faults_(faults) {}

  [[nodiscard]] SlotAudit& audit() noexcept { return audit_; }
  [[nodiscard]] const std::vector<Rollback>& rollbacks() const noexcept { return rollbacks_; }

  /// Takes down why a step was rolled back, if one was. Call it after the engine was, before it begins
  /// anything new.
  void collect(const Engine& engine);

  void on_begin(const Step& step) override;
  void on_commit(const Step& step, Epoch epoch) override { audit_.on_commit(step, epoch); }
  void on_transition(StepState before, StepEvent event, StepState after) override;

 private:
  SlotAudit audit_;
  TransferFaults& faults_;
  std::vector<Rollback> rollbacks_;
  bool has_said_no_ = false;     ///< To the step in hand.
  bool is_rolled_back_ = false;  ///< And not collected yet.
};

}  // namespace trimtab::moe
