// SPDX-License-Identifier: Apache-2.0
#include <trimtab/migrate/engine.hpp>

#include "migrate/control.hpp"
#include "migrate/coordinator.hpp"
#include "migrate/stage_run.hpp"
#include "migrate/staging.hpp"

#include <trimtab/core/assert.hpp>
#include <trimtab/core/checksum.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <deque>

namespace trimtab {
namespace {

std::vector<Rank> live_ranks(const Topology& topology) {
  std::vector<Rank> ranks;
  for (Rank rank : ids<Rank>(topology.num_ranks())) {
    if (topology.is_alive(rank)) ranks.push_back(rank);
  }
  return ranks;
}

std::uint64_t combine(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t both[]{a, b};
  return checksum_of(std::as_bytes(std::span(both)));
}

/// The member's side of the protocol, and the coordinator's on the lowest rank.
class EngineImpl final : public Engine {
 public:
  EngineImpl(const EngineOptions& options, std::unique_ptr<Transport> channel, ExpertStore& store,
             TablePublisher& publisher, Topology topology, Placement placement, const Clock& clock)
      : options_(options),
        clock_(clock),
        store_(store),
        publisher_(publisher),
        topology_(std::move(topology)),
        staging_(options.staging_budget_bytes),
        channel_(std::move(channel)),
        control_(*channel_, live_ranks(topology_)),
        coordinator_(control_, clock, options.deadline) {
    history_.emplace_back(publisher.identity().epoch, std::move(placement));
  }

  /// Posted receives point into staging and mailboxes: end them before either goes.
  ~EngineImpl() override {
    channel_->close();
    channel_->join();
  }
  EngineImpl(const EngineImpl&) = delete;
  EngineImpl& operator=(const EngineImpl&) = delete;

  Status start() { return control_.start(); }

  Status begin(Program program, std::shared_ptr<const TableCompiler> tables) override;
  Result<Admission> advance(Forward next, Clock::duration budget) override;
  Status progress(Clock::duration budget) override;

  [[nodiscard]] bool is_idle() const noexcept override { return state_ == StepState::idle; }
  [[nodiscard]] const Placement& placement() const noexcept override { return history_.back().second; }
  [[nodiscard]] const Placement* placement_of(Epoch epoch) const noexcept override;
  void forget_before(Epoch oldest) override;
  void set_observer(EngineObserver* observer) noexcept override { observer_ = observer; }
  [[nodiscard]] EngineHealth health() const override {
    return {state_, epoch(), last_commit_, last_failure_};
  }
  [[nodiscard]] const EngineCounters& counters() const noexcept override { return counters_; }

 private:
  /// A cancelled step's receives may still land in its staging: it is kept until they cannot.
  struct Quarantined {
    std::unique_ptr<StageRun> run;
    std::span<std::byte> staging;
  };

  /// Adds its own lifetime to the busy time, if a program runs at either end of it.
  class BusyTime {
   public:
    explicit BusyTime(EngineImpl& engine)
        : engine_(engine), begun_(engine.clock_.now()), was_idle_(engine.is_idle()) {}
    ~BusyTime() {
      if (!was_idle_ || !engine_.is_idle()) engine_.counters_.busy += engine_.clock_.now() - begun_;
    }
    BusyTime(const BusyTime&) = delete;
    BusyTime& operator=(const BusyTime&) = delete;

   private:
    EngineImpl& engine_;
    Clock::time_point begun_;
    bool was_idle_;
  };

  [[nodiscard]] Epoch epoch() const noexcept { return history_.back().first; }
  [[nodiscard]] const Step& step() const { return program_->steps[step_index_]; }
  [[nodiscard]] bool owes_decision() const noexcept { return state_ == StepState::staged && has_voted_yes_; }

  Result<bool> pump(Clock::time_point until);
  Status propose();
  Result<bool> receive_messages();
  Status on_message(const Message& message);
  Status on_proposal(const Message& message);
  Status end_overtaken(std::uint64_t by_attempt);
  Status answer_proposal();
  Status on_start();
  Result<bool> stage(Clock::time_point until);
  Status prepare_commit();
  Status vote(Errc reason, StepEvent event);
  Status on_decision(const Message& message);
  Status commit();
  Status on_release();
  Status check_deadline();
  Admission admit(Forward next);

  void enter(StepState state, StepEvent event);
  void begin_step(StepEvent event);
  void roll_back(Error why, StepEvent event);
  void drop_staging();
  void release_quarantine();
  Status fail_in_doubt(Error why, StepEvent event = StepEvent::failed);
  Status send(MessageKind kind, bool yes, Errc reason, std::uint64_t forward);
  [[nodiscard]] Error step_error(Errc code, std::string_view what) const;

  EngineOptions options_;
  const Clock& clock_;
  ExpertStore& store_;
  TablePublisher& publisher_;
  Topology topology_;
  StagingArena staging_;
  std::unique_ptr<Transport> channel_;
  ControlChannel control_;
  Coordinator coordinator_;
  EngineObserver* observer_ = nullptr;

  std::deque<std::pair<Epoch, Placement>> history_;  ///< Ascending; the last is in service.
  std::optional<Program> program_;
  std::shared_ptr<const TableCompiler> tables_;  ///< Of the program in hand; null: even shares.
  std::size_t step_index_ = 0;
  StepState state_ = StepState::idle;
  Clock::time_point until_;          ///< Deadline of the present wait.
  std::optional<Message> proposal_;  ///< Of the step in hand, or one that came before `begin`.
  std::uint64_t newest_attempt_ = 0;
  std::unique_ptr<StageRun> run_;
  std::span<std::byte> run_staging_;
  std::vector<Quarantined> quarantine_;
  std::optional<Placement> next_placement_;  ///< After the step; set before a yes.
  std::optional<RoutingTable> next_table_;
  bool has_answered_ = false;  ///< The proposal in hand.
  bool has_voted_yes_ = false;
  std::optional<Error> cause_;  ///< Why this rank votes no.
  Forward first_unbegun_;       ///< As far as `advance` was told.
  Forward hold_;                ///< First forward not to begin undecided.
  Forward commit_forward_;      ///< F of the decision.
  std::optional<Clock::time_point> stalled_since_;

  std::optional<Clock::time_point> last_commit_;
  std::optional<Error> last_failure_;
  EngineCounters counters_;
};

Status EngineImpl::begin(Program program, std::shared_ptr<const TableCompiler> tables) {
  if (state_ == StepState::in_doubt)
    return failure(Errc::closed, "the engine is in doubt: restart this rank");
  if (!is_idle())
    return failure(Errc::invalid_argument, fmt::format("a program is running ({})", to_string(state_)));
  if (program.steps.empty()) return failure(Errc::invalid_argument, "the program has no step");
  if (program.epoch != epoch()) {
    return failure(Errc::version_mismatch,
                   fmt::format("the program starts from epoch {}, epoch {} is in service",
                               program.epoch.value(), epoch().value()));
  }
  if (program.staging_bytes > options_.staging_budget_bytes) {
    return failure(Errc::invalid_argument, fmt::format("the program needs {} bytes of staging > budget {}",
                                                       program.staging_bytes, options_.staging_budget_bytes));
  }
  program_ = std::move(program);
  tables_ = std::move(tables);
  program_->hash = combine(program_->hash, store_.bundle_hash());
  if (tables_) program_->hash = combine(program_->hash, tables_->fingerprint());
  step_index_ = 0;
  begin_step(StepEvent::begin);
  return {};
}

void EngineImpl::begin_step(StepEvent event) {
  has_voted_yes_ = false;
  cause_.reset();
  enter(StepState::proposed, event);
}

Result<Admission> EngineImpl::advance(Forward next, Clock::duration budget) {
  const Clock::time_point begun = clock_.now();
  first_unbegun_ = std::max(first_unbegun_, next);
  if (Status progressed = progress(budget); !progressed) return failure(std::move(progressed));
  if (state_ == StepState::draining && next >= commit_forward_ && publisher_.is_idle()) {
    const BusyTime busy(*this);
    if (Status committed = commit(); !committed) return failure(std::move(committed));
  }
  if (admit(next) == Admission::hold) {
    if (!stalled_since_) stalled_since_ = begun;
    return Admission::hold;
  }
  if (stalled_since_) counters_.stall += clock_.now() - *std::exchange(stalled_since_, std::nullopt);
  first_unbegun_ = next.next();
  return Admission::go;
}

Status EngineImpl::progress(Clock::duration budget) {
  if (state_ == StepState::in_doubt)
    return failure(Errc::closed, "the engine is in doubt: restart this rank");
  const BusyTime busy(*this);
  if (!quarantine_.empty()) release_quarantine();
  const Clock::time_point until = clock_.now() + budget;
  for (bool worked = true; worked;) {
    Result<bool> pumped = pump(until);
    if (!pumped) return fail_in_doubt(std::move(pumped).error());
    worked = *pumped && clock_.now() < until;
  }
  return check_deadline();
}

/// One round: propose if it is our turn, hear, answer, stage. True when something happened.
Result<bool> EngineImpl::pump(Clock::time_point until) {
  const bool proposes =
      state_ == StepState::proposed && control_.is_coordinator() && !coordinator_.is_running() && !proposal_;
  if (proposes) {
    if (Status proposed = propose(); !proposed) return failure(std::move(proposed));
  }
  Result<bool> heard = receive_messages();
  if (!heard) return heard;
  const bool answers = state_ == StepState::proposed && proposal_ && !has_answered_;
  if (answers) {
    if (Status answered = answer_proposal(); !answered) return failure(std::move(answered));
  }
  bool staged = false;
  if (state_ == StepState::staging) {
    Result<bool> worked = stage(until);
    if (!worked) return worked;
    staged = *worked;
  }
  return proposes || *heard || answers || staged;
}

Status EngineImpl::propose() {
  Message proposal;
  proposal.epoch = epoch().value();
  proposal.program_hash = program_->hash;
  proposal.step = static_cast<std::uint32_t>(step_index_);
  return coordinator_.propose(proposal);
}

Result<bool> EngineImpl::receive_messages() {
  bool heard = false;
  for (;;) {
    Result<std::optional<Message>> message = control_.receive();
    if (!message) return failure(std::move(message));
    if (!*message) return heard;
    heard = true;
    if (Status handled = on_message(**message); !handled) return failure(std::move(handled));
  }
}

Status EngineImpl::on_message(const Message& message) {
  switch (message.kind) {
    case MessageKind::agreement:
    case MessageKind::vote:
    case MessageKind::acknowledgement:
      return coordinator_.on_message(message);
    case MessageKind::propose:
      return on_proposal(message);
    default:
      break;
  }
  if (!proposal_ || message.attempt != proposal_->attempt) return {};  // Of an attempt that is over here.
  switch (message.kind) {
    case MessageKind::start:
      return on_start();
    case MessageKind::decision:
      return on_decision(message);
    case MessageKind::release:
      return on_release();
    default:
      return {};
  }
}

/// Answered once a program is begun here. An older one than the newest seen was overtaken.
Status EngineImpl::on_proposal(const Message& message) {
  if (message.attempt <= newest_attempt_) return {};
  if (state_ == StepState::draining) return {};  // Nobody is past a step that this rank has not acknowledged.
  newest_attempt_ = message.attempt;
  if (Status ended = end_overtaken(message.attempt); !ended) return ended;
  proposal_ = message;
  has_answered_ = false;
  return {};
}

/// Who proposes anew has ended the attempt in hand: by release if this rank committed, else by abort. That
/// message was lost.
Status EngineImpl::end_overtaken(std::uint64_t by_attempt) {
  if (state_ == StepState::committed) return on_release();
  if (state_ == StepState::staging || state_ == StepState::staged) {
    roll_back(step_error(Errc::cancelled, fmt::format("overtaken by attempt {}", by_attempt)),
              StepEvent::abort);
  }
  return {};
}

Status EngineImpl::answer_proposal() {
  has_answered_ = true;
  const bool same = proposal_->program_hash == program_->hash && proposal_->epoch == epoch().value() &&
                    proposal_->step == step_index_;
  return send(MessageKind::agreement, same, Errc::version_mismatch, 0);
}

Status EngineImpl::on_start() {
  if (state_ != StepState::proposed) return {};
  const std::size_t need = StageRun::staging_need(step(), topology_, channel_->rank(), store_);
  const auto block = staging_.allocate(need);
  if (!block) return vote(Errc::unavailable, StepEvent::no_room);
  run_staging_ = *block;
  const Tag tag{static_cast<std::uint32_t>(1 + proposal_->attempt % channel_->capabilities().max_tag)};
  run_ = std::make_unique<StageRun>(StageRun::Context{*channel_, store_, topology_, tag}, step(), *block);
  enter(StepState::staging, StepEvent::start);
  return {};
}

Result<bool> EngineImpl::stage(Clock::time_point until) {
  Result<bool> worked = run_->progress(clock_, until);
  if (worked && !run_->is_complete()) return worked;
  Status ready = worked ? prepare_commit() : failure(std::move(worked));
  if (!ready) cause_ = ready.error();
  Status voted = ready ? vote(Errc::ok, StepEvent::vote_yes) : vote(ready.error().code, StepEvent::vote_no);
  if (!voted) return failure(std::move(voted));
  return true;
}

/// All that can be done, and can fail, before the vote instead of inside the stall.
Status EngineImpl::prepare_commit() {
  next_placement_ = apply(placement(), step());
  const TableIdentity identity{Epoch{epoch().value() + 1}, 0};
  Result<RoutingTable> table = tables_ ? tables_->compile(*next_placement_, topology_, identity)
                                       : RoutingTable::compile(*next_placement_, topology_, identity);
  if (!table) return failure(std::move(table));
  next_table_ = std::move(*table);
  return {};
}

Status EngineImpl::vote(Errc reason, StepEvent event) {
  has_voted_yes_ = reason == Errc::ok;
  hold_ = Forward{first_unbegun_.value() + options_.hold_forwards};
  enter(StepState::staged, event);
  return send(MessageKind::vote, has_voted_yes_, reason, hold_.value());
}

Status EngineImpl::on_decision(const Message& message) {
  if (!program_) {  // The step was never begun here.
    proposal_.reset();
    return {};
  }
  if (message.yes == 0) {
    roll_back(step_error(static_cast<Errc>(message.reason), "rolled back"), StepEvent::abort);
    return {};
  }
  if (state_ == StepState::draining || state_ == StepState::committed) return {};  // Said twice.
  if (!owes_decision()) {
    Error odd = step_error(Errc::corrupt, "told to commit without having voted yes");
    return failure(odd.code, std::move(odd.message));
  }
  commit_forward_ = Forward{message.forward};
  enter(StepState::draining, StepEvent::commit);
  return {};
}

/// The stall: nobody reads slots or tables of this rank now.
Status EngineImpl::commit() {
  if (!stalled_since_) stalled_since_ = clock_.now();
  enter(StepState::committing, StepEvent::drained);
  run_->exchange();
  if (Status verified = run_->verify_exchanged(options_.verify_sample, proposal_->attempt); !verified) {
    return fail_in_doubt(std::move(verified).error(), StepEvent::unverified);
  }
  const Epoch next{epoch().value() + 1};
  if (Status published = publisher_.publish(std::move(*next_table_)); !published) {
    return fail_in_doubt(std::move(published).error());
  }
  history_.emplace_back(next, std::move(*next_placement_));
  last_commit_ = clock_.now();
  ++counters_.steps_committed;
  counters_.bytes_moved += run_->bytes_received();
  counters_.bytes_copied += run_->bytes_copied();
  counters_.slots_moved += run_->slots_moved();
  if (observer_ != nullptr) observer_->on_commit(step(), next);
  enter(StepState::committed, StepEvent::published);
  Status sent = send(MessageKind::acknowledgement, true, Errc::ok, 0);
  return sent ? sent : fail_in_doubt(std::move(sent).error());
}

Status EngineImpl::on_release() {
  if (state_ != StepState::committed) return {};
  drop_staging();
  proposal_.reset();
  if (++step_index_ < program_->steps.size()) {
    begin_step(StepEvent::release);
  } else {
    program_.reset();
    enter(StepState::idle, StepEvent::release);
  }
  return {};
}

/// The coordinator waits one deadline in each phase, a member twice as long: it waits for the coordinator's
/// wait.
Status EngineImpl::check_deadline() {
  if (control_.is_coordinator()) {
    if (Status checked = coordinator_.check_deadline(); !checked) {
      const bool is_late = checked.error().code == Errc::timeout;
      return fail_in_doubt(std::move(checked).error(), is_late ? StepEvent::deadline : StepEvent::failed);
    }
  }
  if (is_idle() || clock_.now() < until_) return {};
  const bool may_abort = state_ == StepState::proposed || state_ == StepState::staging ||
                         (state_ == StepState::staged && !has_voted_yes_);
  Error late = step_error(Errc::timeout,
                          fmt::format("no progress in state {} before its deadline", to_string(state_)));
  if (!may_abort) return fail_in_doubt(std::move(late), StepEvent::deadline);
  roll_back(std::move(late), StepEvent::deadline);
  return {};
}

Admission EngineImpl::admit(Forward next) {
  if (owes_decision() && next >= hold_) return Admission::hold;
  if (state_ == StepState::draining && next >= commit_forward_) return Admission::hold;
  return Admission::go;
}

void EngineImpl::enter(StepState state, StepEvent event) {
  const StepState before = std::exchange(state_, state);
  until_ = clock_.now() + 2 * options_.deadline;
  if (observer_ != nullptr) observer_->on_transition(before, event, state);
}

void EngineImpl::roll_back(Error why, StepEvent event) {
  last_failure_ = cause_ ? std::move(*cause_) : std::move(why);
  ++counters_.steps_rolled_back;
  drop_staging();
  proposal_.reset();
  program_.reset();
  enter(StepState::idle, event);
}

void EngineImpl::drop_staging() {
  if (!run_) return;
  run_->cancel();
  quarantine_.push_back({std::move(run_), std::exchange(run_staging_, {})});
  release_quarantine();
}

void EngineImpl::release_quarantine() {
  std::erase_if(quarantine_, [&](Quarantined& held) {
    if (!held.run->is_quiet()) return false;
    staging_.release(held.staging);
    return true;
  });
}

Status EngineImpl::fail_in_doubt(Error why, StepEvent event) {
  last_failure_ = why;
  enter(StepState::in_doubt, event);
  return tl::unexpected<Error>(std::move(why));
}

Status EngineImpl::send(MessageKind kind, bool yes, Errc reason, std::uint64_t forward) {
  Message message = *proposal_;
  message.kind = kind;
  message.yes = yes ? 1 : 0;
  message.reason = static_cast<std::uint32_t>(reason);
  message.forward = forward;
  return control_.send(control_.coordinator(), message);
}

Error EngineImpl::step_error(Errc code, std::string_view what) const {
  return Error{code,
               fmt::format("rank {}: step {} of the program from epoch {}: {} ({})", channel_->rank().value(),
                           step_index_, program_->epoch.value(), what, to_string(code))};
}

const Placement* EngineImpl::placement_of(Epoch epoch) const noexcept {
  const auto found = std::ranges::find(history_, epoch, &std::pair<Epoch, Placement>::first);
  return found == history_.end() ? nullptr : &found->second;
}

void EngineImpl::forget_before(Epoch oldest) {
  while (history_.size() > 1 && history_.front().first < oldest) history_.pop_front();
}

}  // namespace

std::string_view to_string(StepState state) noexcept {
  switch (state) {
    case StepState::idle:
      return "idle";
    case StepState::proposed:
      return "proposed";
    case StepState::staging:
      return "staging";
    case StepState::staged:
      return "staged";
    case StepState::draining:
      return "draining";
    case StepState::committing:
      return "committing";
    case StepState::committed:
      return "committed";
    case StepState::in_doubt:
      return "in_doubt";
  }
  return "unknown";
}

std::string_view to_string(StepEvent event) noexcept {
  switch (event) {
    case StepEvent::begin:
      return "begin";
    case StepEvent::start:
      return "start";
    case StepEvent::no_room:
      return "no_room";
    case StepEvent::vote_yes:
      return "vote_yes";
    case StepEvent::vote_no:
      return "vote_no";
    case StepEvent::commit:
      return "commit";
    case StepEvent::abort:
      return "abort";
    case StepEvent::drained:
      return "drained";
    case StepEvent::published:
      return "published";
    case StepEvent::unverified:
      return "unverified";
    case StepEvent::release:
      return "release";
    case StepEvent::deadline:
      return "deadline";
    case StepEvent::failed:
      return "failed";
  }
  return "unknown";
}

namespace {

Status check_fit(const Transport& channel, const ExpertStore& store, const Topology& topology,
                 const Placement& placement) {
  if (channel.num_ranks() != topology.num_ranks()) {
    return failure(Errc::invalid_argument, fmt::format("channel of {} ranks, topology of {}",
                                                       channel.num_ranks(), topology.num_ranks()));
  }
  if (!topology.is_alive(channel.rank())) {
    return failure(Errc::invalid_argument,
                   fmt::format("rank {} is dead in its own topology", channel.rank().value()));
  }
  const IdRange<SlotId> slots = topology.slots_of(channel.rank());
  if (store.slots().first() != slots.first() || store.slots().size() != slots.size()) {
    return failure(Errc::invalid_argument,
                   fmt::format("rank {}: the store has slots {}+{}, the topology {}+{}",
                               channel.rank().value(), store.slots().first().value(), store.slots().size(),
                               slots.first().value(), slots.size()));
  }
  if (store.num_layers() != placement.num_layers()) {
    return failure(Errc::invalid_argument, fmt::format("store of {} layers, placement of {}",
                                                       store.num_layers(), placement.num_layers()));
  }
  return check_live(placement, topology);
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::make(const EngineOptions& options, std::unique_ptr<Transport> channel,
                                             ExpertStore& store, TablePublisher& publisher, Topology topology,
                                             Placement placement, const Clock& clock) {
  if (Status fit = check_fit(*channel, store, topology, placement); !fit) return failure(std::move(fit));
  auto engine = std::make_unique<EngineImpl>(options, std::move(channel), store, publisher,
                                             std::move(topology), std::move(placement), clock);
  if (Status started = engine->start(); !started) return failure(std::move(started));
  return std::unique_ptr<Engine>(std::move(engine));
}

}  // namespace trimtab
