// SPDX-License-Identifier: Apache-2.0
#include "moe/arm.hpp"

#include "migrate/staging.hpp"
#include "moe/executor.hpp"
#include "moe/expert_memory.hpp"
#include "moe/migration_watch.hpp"

#include <trimtab/balance/balancer.hpp>
#include <trimtab/core/executor.hpp>
#include <trimtab/migrate/engine.hpp>
#include <trimtab/record/recorder.hpp>
#include <trimtab/route/table_publisher.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <thread>

namespace trimtab::moe {
namespace {

/// How long the engine may work at a time: between forwards, and while a forward waits anyway.
constexpr auto advance_budget = std::chrono::microseconds(500);
constexpr auto waiting_budget = std::chrono::microseconds(100);

constexpr Tag counts_tag{1};
constexpr RecordContext context{ModelRole::target, Phase::prefill};

/// Room in the engine's forward numbers between two blocks, so that a block can end with empty forwards.
constexpr std::uint64_t block_stride = std::uint64_t{1} << 32;

std::vector<std::size_t> bundle_bytes_of(const ExpertStore& store) {
  std::vector<std::size_t> bytes;
  for (LayerId layer : ids<LayerId>(store.num_layers())) bytes.push_back(store.bundle_bytes(layer));
  return bytes;
}

/// What only the on arm has.
class Balancing {
 public:
  static Result<std::unique_ptr<Balancing>> make(const ServiceOptions& options, const Placement& placement,
                                                 ExpertStore& store, TablePublisher& publisher,
                                                 Transport& root, const Clock& clock, Traffic& traffic);

  [[nodiscard]] Recorder& recorder() noexcept { return recorder_; }
  [[nodiscard]] Engine& engine() noexcept { return *engine_; }
  [[nodiscard]] Balancer& balancer() noexcept { return *balancer_; }
  [[nodiscard]] SlotAudit& audit() noexcept { return watch_.audit(); }
  [[nodiscard]] MigrationReport report() const;

  /// One call of the engine each.
  Result<Admission> advance(Forward next);
  Status progress_while_waiting();

 private:
  Balancing(const ServiceOptions& options, const Placement& placement, const ExpertStore& store, Rank rank,
            const Clock& clock)
      : clock_(clock),
        recorder_(placement.num_layers(), placement.num_slots(), options.model.top_k),
        faults_(options.faults, options.topology, rank, bundle_bytes_of(store)),
        watch_(store, faults_) {}

  const Clock& clock_;
  Recorder recorder_;
  TransferFaults faults_;
  MigrationWatch watch_;
  SerialExecutor executor_;  ///< Ranks are the cores already.
  std::unique_ptr<Transport> counts_channel_;
  std::unique_ptr<Engine> engine_;
  std::optional<Balancer> balancer_;
};

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
  const std::size_t budget =
      options.staging_budget_bytes > 0 ? options.staging_budget_bytes : whole_budget(options.topology, store);
  if (Status fits = check_budget(budget, store); !fits) return failure(std::move(fits));
  EngineOptions engine_options;
  engine_options.staging_budget_bytes = budget;
  engine_options.deadline = options.migration_deadline;
  Result<std::unique_ptr<Engine>> engine =
      make_engine(options.mutant, engine_options, made->faults_.wrap(std::move(*migration), clock), store,
                  publisher, options.topology, placement, clock);
  if (!engine) return failure(std::move(engine));
  made->engine_ = std::move(*engine);
  made->engine_->set_observer(&made->watch_);
  BalancerOptions balancer_options;
  balancer_options.rebalance_every = options.rebalance_every;
  balancer_options.split_every = options.split_every;
  balancer_options.plan = options.plan;
  balancer_options.stall_budget = options.stall_budget;
  balancer_options.context = context;
  balancer_options.collective = {counts_tag, options.deadline};
  made->balancer_.emplace(balancer_options, *made->counts_channel_, made->recorder_, *made->engine_,
                          publisher, options.topology, made->executor_, clock);
  return made;
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

class ArmImpl final : public Arm {
 public:
  ArmImpl(const ServiceOptions& options, const ReplicatedWeights& replicated, Placement placement,
          RoutingTable table, IdRange<SlotId> slots, const Clock& clock)
      : options_(options),
        replicated_(replicated),
        clock_(clock),
        placement_(std::move(placement)),
        memory_(options.model, slots, options.layout),
        store_(options.model.num_layers, slots),
        publisher_(std::move(table)),
        reader_(publisher_.make_reader()),
        bias_(options.model.layers() * options.model.experts()) {}

  Status start(ArmId id, Transport& root);

  void begin_block() override;
  Status serve(std::uint64_t stream, std::span<float> states) override;
  Status settle() override;
  ArmBlock take_block() override;
  [[nodiscard]] std::uint64_t epoch() const override { return publisher_.identity().epoch.value(); }
  [[nodiscard]] std::string last_problem() const override;
  [[nodiscard]] MigrationReport migration() const override {
    return balancing_ ? balancing_->report() : MigrationReport{};
  }
  [[nodiscard]] ServiceTraffic traffic() const override { return traffic_; }

 private:
  /// What the counters showed when the block began.
  struct Mark {
    EngineCounters engine;
    BalancerCounters balancer;
    Clock::duration record{};
    Epoch epoch;
  };

  [[nodiscard]] Mark mark() const;
  Status await_decision();
  Status admit();
  void count_rows();

  const ServiceOptions& options_;
  const ReplicatedWeights& replicated_;
  const Clock& clock_;
  Placement placement_;  ///< At the start.
  ExpertMemory memory_;
  ExpertStore store_;
  TablePublisher publisher_;
  TableReader reader_;
  std::vector<float> bias_;
  ServiceTraffic traffic_;
  std::unique_ptr<Transport> forward_channel_;
  std::unique_ptr<Balancing> balancing_;  ///< Null in the off arm.
  std::unique_ptr<RankExecutor> executor_;
  std::uint64_t next_ = 0;  ///< Forward number as the engine knows it.
  std::uint64_t num_blocks_ = 0;
  Mark mark_;
  ArmBlock block_;
};

Status ArmImpl::start(ArmId id, Transport& root) {
  if (Status loaded = memory_.load(placement_); !loaded) return loaded;
  const RegisteredTensors registered =
      options_.mutant == Mutant::wrong_scale ? RegisteredTensors::without_scales : RegisteredTensors::all;
  if (Status done = memory_.register_in(store_, registered); !done) return done;
  Result<std::unique_ptr<Transport>> channel = root.open_channel();
  if (!channel) return failure(std::move(channel));
  forward_channel_ = count_traffic(std::move(*channel), options_.topology, traffic_.forward);
  ExecutorParts parts{.channel = *forward_channel_,
                      .topology = options_.topology,
                      .weights = replicated_,
                      .memory = memory_,
                      .clock = clock_};
  if (id == ArmId::on) {
    auto balancing =
        Balancing::make(options_, placement_, store_, publisher_, root, clock_, traffic_.migration);
    if (!balancing) return failure(std::move(balancing));
    balancing_ = std::move(*balancing);
    parts.recorder = &balancing_->recorder();
    parts.while_waiting = [this] { return balancing_->progress_while_waiting(); };
  }
  const ExecutorOptions executor_options{.config = options_.model,
                                         .max_tokens = static_cast<std::size_t>(options_.tokens_per_rank),
                                         .deadline = options_.deadline,
                                         .context = context};
  auto executor = RankExecutor::make(executor_options, parts);
  if (!executor) return failure(std::move(executor));
  executor_ = std::move(*executor);
  return {};
}

ArmImpl::Mark ArmImpl::mark() const {
  Mark now;
  now.epoch = publisher_.identity().epoch;
  now.record = executor_->times().record;
  if (balancing_) {
    now.engine = balancing_->engine().counters();
    now.balancer = balancing_->balancer().counters();
  }
  return now;
}

void ArmImpl::begin_block() {
  block_ = {};
  next_ = num_blocks_++ * block_stride;
  mark_ = mark();
  if (balancing_) balancing_->audit().begin();
}

/// What a mutant does wrong shows in the forwards after a decision. Without this a fast block would be over
/// before one, and the step would end in forwards without tokens.
Status ArmImpl::await_decision() {
  const auto is_open = [this] {
    const StepState state = balancing_->engine().health().state;
    return state == StepState::proposed || state == StepState::staging || state == StepState::staged;
  };
  while (is_open()) {
    if (Status progressed = balancing_->engine().progress(advance_budget); !progressed) return progressed;
    std::this_thread::yield();
  }
  return {};
}

/// Waits until the engine lets the next forward begin.
Status ArmImpl::admit() {
  if (!balancing_) return {};
  if (options_.mutant) {
    if (Status decided = await_decision(); !decided) return decided;
  }
  for (;;) {
    const Result<Admission> admission = balancing_->advance(Forward{next_});
    if (!admission) return tl::unexpected(admission.error());
    if (*admission == Admission::go) return {};
    std::this_thread::yield();
  }
}

Status ArmImpl::serve(std::uint64_t stream, std::span<float> states) {
  if (Status admitted = admit(); !admitted) return admitted;
  options_.schedule.bias_at(Forward{stream}, bias_);
  {
    const TableLease table = reader_.acquire();
    if (Status done = executor_->forward(Forward{next_}, states, bias_, *table); !done) return done;
  }
  ++next_;
  count_rows();
  return balancing_ ? balancing_->balancer().on_forward_completed() : Status{};
}

void ArmImpl::count_rows() {
  for (LayerId layer : ids<LayerId>(options_.model.num_layers)) {
    std::int64_t sum = 0;
    SlotId slot = store_.slots().first();
    for (std::int64_t rows : executor_->rows(layer)) {
      sum += rows;
      if (balancing_ && balancing_->audit().was_moved(layer, slot)) block_.rows_on_moved_slots += rows;
      slot = slot.next();
    }
    block_.rows.push_back(sum);
  }
}

/// Empty forwards until the engine has nothing in hand.
Status ArmImpl::settle() {
  while (balancing_ && !balancing_->engine().is_idle()) {
    if (Status admitted = admit(); !admitted) return admitted;
    ++next_;
    std::this_thread::yield();
  }
  return {};
}

std::string ArmImpl::last_problem() const {
  if (!balancing_) return "";
  const std::optional<Error> failed = balancing_->engine().health().last_failure;
  if (failed) return failed->message;
  const std::optional<Error>& problem = balancing_->balancer().last_problem();
  return problem ? problem->message : "";
}

ArmBlock ArmImpl::take_block() {
  const Mark now = mark();
  block_.epochs = static_cast<std::int64_t>(now.epoch.value() - mark_.epoch.value());
  block_.slots_moved = static_cast<std::int64_t>(now.engine.slots_moved - mark_.engine.slots_moved);
  block_.bytes_moved = static_cast<std::int64_t>(now.engine.bytes_moved - mark_.engine.bytes_moved);
  block_.bytes_copied = static_cast<std::int64_t>(now.engine.bytes_copied - mark_.engine.bytes_copied);
  block_.rolled_back =
      static_cast<std::int64_t>(now.engine.steps_rolled_back - mark_.engine.steps_rolled_back);
  block_.programs = static_cast<std::int64_t>(now.balancer.programs_begun - mark_.balancer.programs_begun);
  block_.windows_refused =
      static_cast<std::int64_t>(now.balancer.windows_refused - mark_.balancer.windows_refused);
  block_.record = now.record - mark_.record + now.balancer.record - mark_.balancer.record;
  block_.splits = static_cast<std::int64_t>(now.balancer.splits_published - mark_.balancer.splits_published);
  block_.split = now.balancer.split - mark_.balancer.split;
  block_.plan = now.balancer.plan - mark_.balancer.plan;
  block_.migrate = now.engine.busy - mark_.engine.busy;
  block_.stall = now.engine.stall - mark_.engine.stall;
  if (balancing_) block_.unchanged_slots_written = balancing_->audit().count_unnamed_changes();
  return std::move(block_);
}

}  // namespace

void ArmBlock::add(const ArmBlock& block) {
  rows_on_moved_slots += block.rows_on_moved_slots;
  unchanged_slots_written += block.unchanged_slots_written;
  slots_moved += block.slots_moved;
  bytes_moved += block.bytes_moved;
  bytes_copied += block.bytes_copied;
  epochs += block.epochs;
  programs += block.programs;
  rolled_back += block.rolled_back;
  windows_refused += block.windows_refused;
  splits += block.splits;
  record += block.record;
  split += block.split;
  plan += block.plan;
  migrate += block.migrate;
  stall += block.stall;
}

Result<std::unique_ptr<Arm>> Arm::make(ArmId id, const ServiceOptions& options,
                                       const ReplicatedWeights& replicated, Transport& root,
                                       const Clock& clock) {
  const Topology& topology = options.topology;
  Result<Placement> placement =
      Placement::identity(options.model.num_layers, topology.num_slots(), options.model.num_experts);
  if (!placement) return failure(std::move(placement));
  Result<RoutingTable> table = RoutingTable::compile(*placement, topology, {Epoch{0}, 0});
  if (!table) return failure(std::move(table));
  auto arm = std::make_unique<ArmImpl>(options, replicated, std::move(*placement), std::move(*table),
                                       topology.slots_of(root.rank()), clock);
  if (Status started = arm->start(id, root); !started) return failure(std::move(started));
  return std::unique_ptr<Arm>(std::move(arm));
}

}  // namespace trimtab::moe
