// SPDX-License-Identifier: Apache-2.0
#include "moe/arm.hpp"

#include "moe/balancing.hpp"
#include "moe/executor.hpp"
#include "moe/expert_memory.hpp"
#include "moe/workload.hpp"

#include <trimtab/route/table_publisher.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <thread>

namespace trimtab::moe {
namespace {

/// Room in the engine's forward numbers between two blocks, so that a block can end with empty forwards.
constexpr std::uint64_t block_stride = std::uint64_t{1} << 32;

/// Of one rank and forward: when others are gone, up to half of all, their tokens are dealt out.
std::size_t most_tokens(const ServiceOptions& options) {
  const auto own = static_cast<std::size_t>(options.tokens_per_rank);
  const auto ranks = static_cast<std::size_t>(options.topology.num_ranks());
  const std::size_t left = ranks - ranks / 2;
  return options.survival ? own + (ranks / 2) * ((own + left - 1) / left) : own;
}

class ArmImpl final : public Arm {
 public:
  ArmImpl(const ServiceOptions& options, const ReplicatedWeights& replicated, Placement placement,
          RoutingTable table, IdRange<SlotId> slots, const Clock& clock, std::function<Status()> watch,
          AroundExperts* around)
      : options_(options),
        replicated_(replicated),
        clock_(clock),
        watch_(std::move(watch)),
        around_(around),
        topology_(options.topology),
        placement_(std::move(placement)),
        memory_(options.model, slots, options.layout),
        store_(options.model.num_layers, slots),
        publisher_(std::move(table)),
        reader_(publisher_.make_reader()),
        bias_(options.model.layers() * options.model.experts()) {}

  /// What was given up may still be read until the channel is closed.
  ~ArmImpl() override {
    if (forward_channel_) forward_channel_->join();
  }
  ArmImpl(const ArmImpl&) = delete;
  ArmImpl& operator=(const ArmImpl&) = delete;

  Status start(ArmId id, Transport& root);

  void begin_block() override;
  Result<bool> serve(std::uint64_t stream, std::span<float> states) override;
  Result<bool> settle() override;
  [[nodiscard]] std::uint64_t resume() const override { return next_ - block_begin_; }
  Status watch() override { return balancing_ ? balancing_->progress_while_waiting() : Status{}; }
  Status await_view(const Status& failed) override;
  void drop(Rank rank) override;
  [[nodiscard]] const View& view() const override {
    return balancing_ ? balancing_->engine().view() : all_ranks_;
  }
  [[nodiscard]] const Topology& topology() const override { return topology_; }
  [[nodiscard]] const std::optional<DeathReport>& death() const override { return death_; }
  ArmBlock take_block() override;
  [[nodiscard]] std::uint64_t epoch() const override { return publisher_.identity().epoch.value(); }
  [[nodiscard]] std::string last_problem() const override;
  [[nodiscard]] MigrationReport migration() const override {
    return balancing_ ? balancing_->report() : MigrationReport{};
  }
  [[nodiscard]] ReplayReport replays() const override { return executor_->replays(); }
  [[nodiscard]] ServiceTraffic traffic() const override { return traffic_; }

 private:
  /// What the counters showed when the block began.
  struct Mark {
    EngineCounters engine;
    BalancerCounters balancer;
    Clock::duration record{};
    Epoch epoch;
  };

  Status load(ExpertMemory& memory) const;
  [[nodiscard]] Mark mark() const;
  Result<bool> admit();
  /// `await_view`, as `serve` says it.
  Result<bool> survive(const Status& failed);
  Status enter_view();
  Status retry_recovery();
  Status strike(std::uint64_t stream);
  void count_rows();

  const ServiceOptions& options_;
  const ReplicatedWeights& replicated_;
  const Clock& clock_;
  std::function<Status()> watch_;
  AroundExperts* around_;
  Topology topology_;    ///< With the ranks alive that serve.
  Placement placement_;  ///< At the start.
  View all_ranks_;
  ExpertMemory memory_;
  std::optional<ExpertMemory> replacement_;  ///< What migrations write instead, with Mutant::new_storage.
  ExpertStore store_;
  TablePublisher publisher_;
  TableReader reader_;
  std::vector<float> bias_;
  ServiceTraffic traffic_;
  std::unique_ptr<Transport> forward_channel_;
  std::unique_ptr<Balancing> balancing_;  ///< Null in the off arm.
  std::unique_ptr<ForwardRunner> executor_;
  std::uint64_t next_ = 0;  ///< Forward number as the engine knows it.
  std::uint64_t num_blocks_ = 0;
  std::uint64_t block_begin_ = 0;             ///< As next_.
  std::optional<Clock::time_point> noticed_;  ///< A death; until a forward is done.
  std::optional<DeathReport> death_;
  std::int32_t num_recoveries_ = 0;
  Mark mark_;
  ArmBlock block_;
};

Status ArmImpl::load(ExpertMemory& memory) const { return memory.load(placement_, *weights_of(options_)); }

Status ArmImpl::start(ArmId id, Transport& root) {
  if (Status loaded = load(memory_); !loaded) return loaded;
  const RegisteredTensors registered =
      options_.mutant == Mutant::wrong_scale ? RegisteredTensors::without_scales : RegisteredTensors::all;
  if (options_.mutant == Mutant::new_storage) {
    replacement_.emplace(options_.model, memory_.slots(), options_.layout);
    if (Status loaded = load(*replacement_); !loaded) return loaded;
  }
  ExpertMemory& written = replacement_ ? *replacement_ : memory_;
  if (Status done = written.register_in(store_, registered); !done) return done;
  Result<std::unique_ptr<Transport>> channel = root.open_channel();
  if (!channel) return failure(std::move(channel));
  for (Rank rank : ids<Rank>(root.num_ranks())) all_ranks_.members.push_back(rank);
  forward_channel_ = count_traffic(std::move(*channel), options_.topology, traffic_.forward);
  ExecutorParts parts{.channel = *forward_channel_,
                      .topology = topology_,
                      .weights = replicated_,
                      .memory = options_.graph_replay ? memory_ : written,  // As captured, or as it is now.
                      .clock = clock_,
                      .while_waiting = watch_,
                      .on_unheard = {},
                      .around = around_};
  if (id == ArmId::on) {
    auto balancing =
        Balancing::make(options_, placement_, store_, publisher_, root, clock_, traffic_.migration);
    if (!balancing) return failure(std::move(balancing));
    balancing_ = std::move(*balancing);
    parts.recorder = &balancing_->recorder();
    parts.while_waiting = [this] { return balancing_->progress_while_waiting(); };
    parts.on_unheard = [this](Forward forward, Rank peer) {
      balancing_->engine().note_unheard(forward, peer);
    };
  }
  const ExecutorOptions executor_options{.config = options_.model,
                                         .max_tokens = most_tokens(options_),
                                         .deadline = options_.deadline,
                                         .context = Balancing::context,
                                         .survives_deaths = options_.survival.has_value()};
  auto executor = make_forward_runner(options_.graph_replay, executor_options, parts);
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
  block_begin_ = num_blocks_++ * block_stride;
  next_ = block_begin_;
  mark_ = mark();
  if (balancing_) balancing_->audit().begin();
}

/// Waits until the engine lets the next forward begin. False when the view has changed.
Result<bool> ArmImpl::admit() {
  if (!balancing_) return true;
  if (options_.mutant) {
    if (Status decided = balancing_->await_decision(); !decided) return failure(std::move(decided));
  }
  for (;;) {
    // The others may need this rank's engine before they let go.
    Result<bool> is_free = executor_->has_let_go();
    if (!is_free) return is_free;
    const Result<Admission> admission = balancing_->advance(Forward{next_});
    if (!admission) return tl::unexpected(admission.error());
    if (*admission == Admission::go && *is_free) return true;
    if (*admission == Admission::renew) {
      if (Status entered = enter_view(); !entered) return failure(std::move(entered));
      return false;
    }
    if (Status retried = retry_recovery(); !retried) return failure(std::move(retried));
    std::this_thread::yield();
  }
}

Status ArmImpl::await_view(const Status& failed) {
  const Errc code = failed.error().code;
  const bool is_death = code == Errc::cancelled || code == Errc::peer_lost || code == Errc::timeout;
  if (!balancing_ || !balancing_->survives_deaths() || !is_death) return failed;
  const Clock::time_point now = clock_.now();
  if (!noticed_) noticed_ = now;
  while (clock_.now() < now + options_.deadline) {
    const Result<Admission> admission = balancing_->advance(Forward{next_});
    if (!admission) return tl::unexpected(admission.error());
    if (*admission == Admission::renew) return enter_view();
    std::this_thread::yield();
  }
  if (code != Errc::cancelled) return failed;
  return failure(Errc::peer_lost,
                 fmt::format("ranks are gone, and those left have not come to a view within {} ms",
                             options_.deadline / std::chrono::milliseconds(1)));
}

Result<bool> ArmImpl::survive(const Status& failed) {
  if (Status survived = await_view(failed); !survived) return failure(std::move(survived));
  return false;
}

void ArmImpl::drop(Rank rank) {
  forward_channel_->drop_peer(rank);
  if (balancing_) balancing_->drop(rank);
}

Status ArmImpl::enter_view() {
  if (!noticed_) noticed_ = clock_.now();
  const Engine& engine = balancing_->engine();
  topology_ = engine.topology();
  executor_->enter_view(engine.view().number);
  next_ = std::max(engine.view().resume.value(), block_begin_);
  death_.emplace();
  death_->members = engine.view().members;
  death_->experts_lost = static_cast<std::int64_t>(engine.view().lost.size());
  num_recoveries_ = 0;
  return engine.view().lost.empty() ? balancing_->balancer().enter_view() : retry_recovery();
}

/// The step that ended with the view may not be released yet; and the program that brings lost experts back
/// may be rolled back like any other. Until it is done no forward is admitted.
Status ArmImpl::retry_recovery() {
  constexpr std::int32_t most_recoveries = 3;
  Engine& engine = balancing_->engine();
  if (engine.view().lost.empty() || !engine.is_idle()) return {};
  if (num_recoveries_++ < most_recoveries) return balancing_->balancer().enter_view();
  return tl::unexpected(*engine.health().last_failure);
}

Status ArmImpl::strike(std::uint64_t stream) {
  const std::optional<RankFault>& fault = options_.rank_fault;
  const Rank rank = forward_channel_->rank();
  if (!fault || !balancing_ || rank != fault->rank || stream != fault->forward) return {};
  fault->strike();
  if (!fault->ends_rank) return {};
  return failure(Errc::cancelled, fmt::format("rank {} was killed in forward {}", rank.value(), stream));
}

Result<bool> ArmImpl::serve(std::uint64_t stream, std::span<float> states) {
  Result<bool> admitted = admit();
  if (!admitted || !*admitted) return admitted;
  if (Status struck = strike(stream); !struck) return failure(std::move(struck));
  options_.schedule.bias_at(Forward{stream}, bias_);
  Status done;
  {
    const TableLease table = reader_.acquire();
    done = executor_->forward(Forward{next_}, states, bias_, *table);
  }
  if (!done) return survive(done);
  ++next_;
  if (balancing_) balancing_->engine().note_finished(Forward{next_});
  count_rows();
  if (noticed_ && death_) death_->recovery_ms = to_ms(clock_.now() - *std::exchange(noticed_, std::nullopt));
  if (!balancing_) return true;
  const Status balanced = balancing_->balancer().on_forward_completed();
  return balanced ? Result<bool>(true) : survive(balanced);
}

/// Of the forward that was served last; one that is served again takes its place.
void ArmImpl::count_rows() {
  block_.rows.resize((next_ - 1 - block_begin_) * options_.model.layers());
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
Result<bool> ArmImpl::settle() {
  while (balancing_ && !balancing_->engine().is_idle()) {
    Result<bool> admitted = admit();
    if (!admitted || !*admitted) return admitted;
    ++next_;
    std::this_thread::yield();
  }
  return true;
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
  if (death_) death_->bytes_recovered = static_cast<std::int64_t>(now.engine.bytes_recovered);
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
                                       const Clock& clock, std::function<Status()> watch,
                                       AroundExperts* around) {
  const Topology& topology = options.topology;
  Result<Placement> placement =
      Placement::identity(options.model.num_layers, topology.num_slots(), options.model.num_experts);
  if (!placement) return failure(std::move(placement));
  Result<RoutingTable> table = RoutingTable::compile(*placement, topology, {Epoch{0}, 0});
  if (!table) return failure(std::move(table));
  auto arm = std::make_unique<ArmImpl>(options, replicated, std::move(*placement), std::move(*table),
                                       topology.slots_of(root.rank()), clock, std::move(watch), around);
  if (Status started = arm->start(id, root); !started) return failure(std::move(started));
  return std::unique_ptr<Arm>(std::move(arm));
}

}  // namespace trimtab::moe
