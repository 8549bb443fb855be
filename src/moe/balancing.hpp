// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "moe/migration_report.hpp"
#include "moe/migration_watch.hpp"
#include "moe/service.hpp"
#include "moe/slot_audit.hpp"
#include "moe/traffic.hpp"
#include "moe/transfer_faults.hpp"

#include <trimtab/balance/balancer.hpp>
#include <trimtab/core/clock.hpp>
#include <trimtab/core/executor.hpp>
#include <trimtab/core/placement.hpp>
#include <trimtab/core/result.hpp>
#include <trimtab/migrate/engine.hpp>
#include <trimtab/record/recorder.hpp>
#include <trimtab/route/table_publisher.hpp>
#include <trimtab/transport/liveness.hpp>
#include <trimtab/transport/transport.hpp>
#include <trimtab/weights/expert_source.hpp>
#include <trimtab/weights/expert_store.hpp>

#include <functional>
#include <memory>
#include <optional>

namespace trimtab::moe {

/// What only the on arm has: recorder, engine and balancer, and what it takes to outlive a rank. One thread.
class Balancing {
 public:
  static constexpr RecordContext context{ModelRole::target, Phase::prefill};

  /// Collective over `root`, on which it opens its channels. Borrows everything given.
  static Result<std::unique_ptr<Balancing>> make(const ServiceOptions& options, const Placement& placement,
                                                 ExpertStore& store, TablePublisher& publisher,
                                                 Transport& root, const Clock& clock, Traffic& traffic);

  [[nodiscard]] Recorder& recorder() noexcept { return recorder_; }
  [[nodiscard]] Engine& engine() noexcept { return *engine_; }
  [[nodiscard]] Balancer& balancer() noexcept { return *balancer_; }
  [[nodiscard]] SlotAudit& audit() noexcept { return watch_.audit(); }
  [[nodiscard]] MigrationReport report() const;

  [[nodiscard]] bool survives_deaths() const noexcept { return liveness_ != nullptr; }

  /// One call of the engine each.
  Result<Admission> advance(Forward next);
  Status progress_while_waiting();
  /// The engine's own channel stays: a rank that is left out may hear of it.
  void drop(Rank rank) { counts_channel_->drop_peer(rank); }
  /// Waits until no step waits for a decision here.
  Status await_decision();

 private:
  Balancing(const ServiceOptions& options, const Placement& placement, const ExpertStore& store, Rank rank,
            const Clock& clock);

  Status make_engine(const ServiceOptions& options, const Placement& placement, ExpertStore& store,
                     TablePublisher& publisher, std::unique_ptr<Transport> channel);
  void make_balancer(const ServiceOptions& options, TablePublisher& publisher);
  Status prepare_for_deaths(const Survival& survival, Clock::duration deadline, const Placement& placement,
                            ExpertStore& store, Transport& root);
  Status await_beats(Clock::duration deadline);

  const Clock& clock_;
  std::unique_ptr<Liveness> liveness_;    ///< Null: a death ends the service.
  std::unique_ptr<ExpertSource> source_;  ///< Beside liveness.
  Recorder recorder_;
  TransferFaults faults_;
  MigrationWatch watch_;
  std::function<Status()> while_waiting_;
  SerialExecutor executor_;  ///< Ranks are the cores already.
  std::unique_ptr<Transport> counts_channel_;
  std::unique_ptr<Engine> engine_;
  std::optional<Balancer> balancer_;
};

}  // namespace trimtab::moe
