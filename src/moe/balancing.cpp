// SPDX-License-Identifier: Apache-2.0
#include "moe/balancing.hpp"

#include "migrate/staging.hpp"

#include <trimtab/transport/collectives.hpp>
#include <trimtab/weights/checkpoint.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

namespace trimtab::moe {
namespace {

/// How long the engine may work at a time: between forwards, and while a forward waits anyway.
constexpr auto advance_budget = std::chrono::microseconds(500);
constexpr auto waiting_budget = std::chrono::microseconds(100);

constexpr Tag counts_tag{1};

std::vector<std::size_t> bundle_bytes_of(const ExpertStore& store) {
  std::vector<std::size_t> bytes;
  for (LayerId layer : ids<LayerId>(store.num_layers())) bytes.push_back(store.bundle_bytes(layer));
  return bytes;
}

/// @return `infeasible` with what would do.
Status check_budget(std::size_t budget, const ExpertStore& store) {
  const std::size_t need = staged_bytes(std::ranges::max(bundle_bytes_of(store)));
  if (budget >= need) return {};
  return failure(Errc::infeasible,
                 fmt::format("a staging budget of {} bytes holds no expert: one takes {}", budget, need));
}

/// Room for every slot of the largest rank in every layer: any plan is one step.
std::size_t whole_budget(const Topology& topology, const ExpertStore& store) {
  std::size_t most_slots = 0;
  for (Rank rank : ids<Rank>(topology.num_ranks()))
    most_slots = std::max(most_slots, topology.slots_of(rank).size());
  std::size_t budget = 0;
  for (std::size_t bytes : bundle_bytes_of(store)) budget += most_slots * staged_bytes(bytes);
  return budget;
}

}  // namespace

Balancing::Balancing(const ServiceOptions& options, const Placement& placement, const ExpertStore& store,
                     Rank rank, const Clock& clock)
    : clock_(clock),
      recorder_(placement.num_layers(), placement.num_slots(), options.model.top_k),
      faults_(options.faults, options.topology, rank, bundle_bytes_of(store)),
      watch_(store, faults_),
      while_waiting_([this] { return progress_while_waiting(); }) {}

Result<std::unique_ptr<Balancing>> Balancing::make(const ServiceOptions& options, const Placement& placement,
                                                   ExpertStore& store, TablePublisher& publisher,
                                                   Transport& root, const Clock& clock, Traffic& traffic) {
  std::unique_ptr<Balancing> made(new Balancing(options, placement, store, root.rank(), clock));
  Result<std::unique_ptr<Transport>> migration = root.open_channel();
  if (!migration) return failure(std::move(migration));
  *migration = count_traffic(std::move(*migration), options.topology, traffic);
  Result<std::unique_ptr<Transport>> counts = root.open_channel();
  if (!counts) return failure(std::move(counts));
  made->counts_channel_ = std::move(*counts);
  if (options.survival) {
    if (Status prepared =
            made->prepare_for_deaths(*options.survival, options.deadline, placement, store, root);
        !prepared)
      return failure(std::move(prepared));
  }
  if (Status engine = made->make_engine(options, placement, store, publisher, std::move(*migration)); !engine)
    return failure(std::move(engine));
  made->make_balancer(options, publisher);
  return made;
}

Status Balancing::make_engine(const ServiceOptions& options, const Placement& placement, ExpertStore& store,
                              TablePublisher& publisher, std::unique_ptr<Transport> channel) {
  EngineOptions engine_options;
  engine_options.staging_budget_bytes =
      options.staging_budget_bytes > 0 ? options.staging_budget_bytes : whole_budget(options.topology, store);
  if (Status fits = check_budget(engine_options.staging_budget_bytes, store); !fits) return fits;
  engine_options.deadline = options.migration_deadline;
  engine_options.decided_deadline = options.deadline;
  engine_options.liveness = liveness_.get();
  engine_options.source = source_.get();
  Result<std::unique_ptr<Engine>> engine =
      trimtab::make_engine(options.mutant, engine_options, faults_.wrap(std::move(channel), clock_), store,
                           publisher, options.topology, placement, clock_);
  if (!engine) return failure(std::move(engine));
  engine_ = std::move(*engine);
  engine_->set_observer(&watch_);
  return {};
}

void Balancing::make_balancer(const ServiceOptions& options, TablePublisher& publisher) {
  BalancerOptions balancer_options;
  balancer_options.rebalance_every = options.rebalance_every;
  balancer_options.split_every = options.split_every;
  balancer_options.plan = options.plan;
  balancer_options.stall_budget = options.stall_budget;
  balancer_options.context = context;
  balancer_options.collective = {counts_tag, options.deadline};
  if (survives_deaths()) balancer_options.collective.while_waiting = &while_waiting_;
  balancer_.emplace(balancer_options, *counts_channel_, recorder_, *engine_, publisher, executor_, clock_);
}

/// Every rank writes the experts that are its own, and reads any.
Status Balancing::prepare_for_deaths(const Survival& survival, Clock::duration deadline,
                                     const Placement& placement, ExpertStore& store, Transport& root) {
  Result<std::unique_ptr<Transport>> beats = root.open_channel();
  if (!beats) return failure(std::move(beats));
  Result<std::unique_ptr<Liveness>> liveness =
      make_background_heartbeat(survival.heartbeat, std::move(*beats), clock_);
  if (!liveness) return failure(std::move(liveness));
  liveness_ = std::move(*liveness);
  const auto path = [&](Rank rank) {
    return fmt::format("{}/{}", survival.checkpoint, shard_name(rank, root.num_ranks()));
  };
  Status written =
      write_checkpoint_shard(path(root.rank()), store, checkpoint_share(placement, store.slots()));
  if (!written) return written;
  if (Status met = barrier(root, clock_, {counts_tag}); !met) return met;
  if (Status heard = await_beats(deadline); !heard) return heard;
  Result<std::unique_ptr<CheckpointSource>> source = CheckpointSource::open(survival.checkpoint, store);
  if (!source) return failure(std::move(source));
  source_ = std::move(*source);
  return {};
}

/// All beat by now, but who began late may have been silent for those that began early.
Status Balancing::await_beats(Clock::duration deadline) {
  const Clock::time_point until = clock_.now() + deadline;
  for (Rank rank : ids<Rank>(counts_channel_->num_ranks())) {
    while (rank != counts_channel_->rank() && liveness_->health_of(rank) == RankHealth::silent) {
      if (clock_.now() >= until)
        return failure(Errc::timeout, fmt::format("rank {} is not heard of", rank.value()));
      std::this_thread::yield();
    }
  }
  return {};
}

Result<Admission> Balancing::advance(Forward next) {
  Result<Admission> admission = engine_->advance(next, advance_budget);
  watch_.collect(*engine_);
  return admission;
}

Status Balancing::progress_while_waiting() {
  Status progressed = engine_->progress(waiting_budget);
  watch_.collect(*engine_);
  return progressed;
}

MigrationReport Balancing::report() const {
  const EngineHealth health = engine_->health();
  MigrationReport report;
  report.rollbacks = watch_.rollbacks();
  report.struck = faults_.struck();
  report.buffers = {health.staging_budget_bytes, health.staging_peak_bytes, health.workspace_bytes,
                    health.transport_buffer_bytes};
  report.engine.state = health.state;
  report.engine.epoch = health.epoch.value();
  report.engine.failures = health.failures;
  if (health.last_commit) report.engine.last_commit_age = clock_.now() - *health.last_commit;
  if (health.last_failure) report.engine.last_failure = health.last_failure->message;
  return report;
}

/// What a mutant does wrong shows in the forwards after a decision. Without this a fast block would be over
/// before one, and the step would end in forwards without tokens.
Status Balancing::await_decision() {
  const auto is_open = [this] {
    const StepState state = engine_->health().state;
    return state == StepState::proposed || state == StepState::staging || state == StepState::staged;
  };
  while (is_open()) {
    if (Status progressed = engine_->progress(advance_budget); !progressed) return progressed;
    std::this_thread::yield();
  }
  return {};
}

}  // namespace trimtab::moe
