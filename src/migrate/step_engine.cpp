// SPDX-License-Identifier: Apache-2.0
#include "migrate/step_engine.hpp"

#include <trimtab/core/checksum.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace trimtab {
namespace {

std::vector<Rank> live_ranks(const Topology& topology) {
  std::vector<Rank> ranks;
  for (Rank rank : ids<Rank>(topology.num_ranks())) {
    if (topology.is_alive(rank)) ranks.push_back(rank);
  }
  return ranks;
}

EngineOptions with_defaults(EngineOptions options) {
  if (options.decided_deadline == Clock::duration::zero()) options.decided_deadline = options.deadline;
  return options;
}

std::uint64_t combine(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t both[]{a, b};
  return checksum_of(std::as_bytes(std::span(both)));
}

}  // namespace

/// Adds its own lifetime to the busy time, if a program runs at either end of it, and counts messages.
class StepEngine::BusyTime {
 public:
  explicit BusyTime(StepEngine& engine)
      : engine_(engine), begun_(engine.clock_.now()), was_idle_(engine.is_idle()) {}
  ~BusyTime() {
    if (!was_idle_ || !engine_.is_idle()) engine_.counters_.busy += engine_.clock_.now() - begun_;
    engine_.counters_.control_messages = engine_.control_.num_sent();
  }
  BusyTime(const BusyTime&) = delete;
  BusyTime& operator=(const BusyTime&) = delete;

 private:
  StepEngine& engine_;
  Clock::time_point begun_;
  bool was_idle_;
};

StepEngine::StepEngine(const EngineOptions& options, std::unique_ptr<Transport> channel, ExpertStore& store,
                       TablePublisher& publisher, Topology topology, Placement placement, const Clock& clock)
    : options_(with_defaults(options)),
      clock_(clock),
      store_(store),
      publisher_(publisher),
      topology_(std::move(topology)),
      channel_(std::move(channel)),
      control_(*channel_, live_ranks(topology_)),
      coordinator_(control_, clock, options_.deadline, options_.decided_deadline),
      view_{.number = 0, .members = control_.members(), .resume = {}, .lost = {}, .kept = {}},
      builder_(store, topology_, options.staging_budget_bytes, options.source != nullptr, view_.kept),
      history_(publisher.identity().epoch, std::move(placement)),
      since_(clock.now()),
      runs_(options.staging_budget_bytes),
      late_(*channel_) {
  if (options_.liveness != nullptr) {
    take_over_.emplace(*channel_, *options_.liveness, clock_, options_.deadline, RankSet(view_.members));
  }
}

Status StepEngine::start() {
  if (Status started = control_.start(); !started) return started;
  return take_over_ ? take_over_->start() : Status{};
}

/// Posted receives point into staging and mailboxes: end them before either goes.
StepEngine::~StepEngine() {
  channel_->close();
  channel_->join();
}

Status StepEngine::begin(Program program, std::shared_ptr<const TableCompiler> tables) {
  if (Status fit = check_program(program); !fit) return fit;
  goal_.reset();
  stall_budget_bytes_ = Message::no_budget;
  take(std::move(program), std::move(tables));
  step_index_ = 0;
  begin_step(StepEvent::begin);
  return {};
}

Result<bool> StepEngine::begin_toward(MigrationGoal goal) {
  if (Status ready = check_ready(); !ready) return failure(std::move(ready));
  if (goal.stall_budget && !builder_.copy_rate().bytes_per_s()) estimate_copy_rate();
  const Result<std::optional<std::size_t>> stall_bytes = builder_.stall_bytes(goal);
  if (!stall_bytes) return tl::unexpected(stall_bytes.error());
  Result<Program> program = builder_.build(goal, epoch(), placement(), *stall_bytes);
  if (!program) return failure(std::move(program));
  if (program->steps.empty()) return false;
  if (Status begun = begin(std::move(*program), goal.tables); !begun) return failure(std::move(begun));
  goal_ = std::move(goal);
  stall_budget_bytes_ = stall_bytes->value_or(Message::no_budget);
  return true;
}

/// In staging, which nobody uses yet.
void StepEngine::estimate_copy_rate() {
  constexpr std::size_t most = std::size_t{8} << 20;
  runs_.use_idle(most, [&](auto memory) { builder_.copy_rate().measure(memory, clock_); });
}

void StepEngine::take(Program program, std::shared_ptr<const TableCompiler> tables) {
  program_ = std::move(program);
  tables_ = std::move(tables);
  program_->hash = combine(program_->hash, store_.bundle_hash());
  if (tables_) program_->hash = combine(program_->hash, tables_->fingerprint());
}

Status StepEngine::check_ready() const {
  if (state_ == StepState::in_doubt)
    return failure(Errc::closed, "the engine is in doubt: restart this rank");
  if (!is_idle())
    return failure(Errc::invalid_argument, fmt::format("a program is running ({})", to_string(state_)));
  return {};
}

Status StepEngine::check_program(const Program& program) const {
  if (Status ready = check_ready(); !ready) return ready;
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
  return {};
}

void StepEngine::begin_step(StepEvent event) {
  has_voted_yes_ = false;
  cause_.reset();
  enter(StepState::proposed, event);
}

Result<Admission> StepEngine::advance(Forward next, Clock::duration budget) {
  const Clock::time_point begun = clock_.now();
  first_unbegun_ = std::max(first_unbegun_, next);
  if (take_over_ && publisher_.is_idle()) note_finished(next);
  if (Status driven = drive(budget); !driven) return failure(std::move(driven));
  if (take_over_ && take_over_->chosen() && publisher_.is_idle()) {
    const BusyTime busy(*this);
    if (Status entered = enter_view(); !entered) return failure(std::move(entered));
    return Admission::renew;
  }
  if (state_ == StepState::draining && !is_view_ending() && is_drained(next)) {
    const BusyTime busy(*this);
    if (Status committed = commit(StepEvent::drained); !committed) return failure(std::move(committed));
    if (Status sent = acknowledge(); !sent) return failure(fail_in_doubt(std::move(sent).error()));
  }
  if (is_view_ending() || admit(next) == Admission::hold) {
    if (!stalled_since_) stalled_since_ = begun;
    return Admission::hold;
  }
  if (stalled_since_) counters_.stall += clock_.now() - *std::exchange(stalled_since_, std::nullopt);
  first_unbegun_ = next.next();
  return Admission::go;
}

bool StepEngine::is_drained(Forward next) const { return next >= commit_forward_ && publisher_.is_idle(); }

Status StepEngine::progress(Clock::duration budget) {
  if (Status driven = drive(budget); !driven) return driven;
  if (!is_view_ending()) return {};
  return failure(Errc::cancelled, fmt::format("view {} is ending: its forwards are given up", view_.number));
}

Status StepEngine::drive(Clock::duration budget) {
  if (state_ == StepState::in_doubt)
    return failure(Errc::closed, "the engine is in doubt: restart this rank");
  const BusyTime busy(*this);
  late_.take(clock_.now());
  runs_.release_quiet();
  if (take_over_) {
    if (Status watched = watch_view(); !watched || is_view_ending()) return watched;
  }
  const Clock::time_point until = clock_.now() + budget;
  for (bool worked = true; worked;) {
    Result<bool> pumped = pump(until);
    if (!pumped) return fail_in_doubt(std::move(pumped).error());
    worked = *pumped && clock_.now() < until;
  }
  return check_deadline();
}

/// The coordinator waits one deadline in each phase, a member twice as long: it waits for the coordinator's
/// wait. What cannot be ended alone, a take-over ends, if there is one.
Status StepEngine::check_deadline() {
  if (control_.is_coordinator() && !(take_over_ && coordinator_.is_overdue())) {
    if (Status checked = coordinator_.check_deadline(); !checked) {
      const bool is_late = checked.error().code == Errc::timeout;
      return fail_in_doubt(std::move(checked).error(), is_late ? StepEvent::deadline : StepEvent::failed);
    }
  }
  if (is_idle() || clock_.now() < until_ || (take_over_ && !may_roll_back_alone())) return {};
  Error late = step_error(Errc::timeout,
                          fmt::format("no progress in state {} before its deadline", to_string(state_)));
  if (!may_roll_back_alone()) return fail_in_doubt(std::move(late), StepEvent::deadline);
  roll_back(std::move(late), StepEvent::deadline);
  return control_.is_coordinator() ? coordinator_.give_up() : Status{};
}

bool StepEngine::may_roll_back_alone() const noexcept {
  return state_ == StepState::proposed || state_ == StepState::staging ||
         (state_ == StepState::staged && !has_voted_yes_);
}

Admission StepEngine::admit(Forward next) {
  if (!view_.lost.empty()) return Admission::hold;
  if (owes_decision() && next >= hold_) return Admission::hold;
  if (state_ == StepState::draining && next >= commit_forward_) return Admission::hold;
  return Admission::go;
}

void StepEngine::enter(StepState state, StepEvent event) {
  const StepState before = std::exchange(state_, state);
  since_ = clock_.now();
  const bool is_bound = state == StepState::draining || state == StepState::committed || owes_decision();
  until_ = since_ + 2 * (is_bound ? options_.decided_deadline : options_.deadline);
  if (observer_ != nullptr) observer_->on_transition(before, event, state);
}

void StepEngine::roll_back(Error why, StepEvent event) {
  last_failure_ = cause_ ? std::move(*cause_) : std::move(why);
  ++counters_.steps_rolled_back;
  if (proposal_) late_.expect(senders_to_here(), payload_tag(), clock_.now() + 2 * options_.deadline);
  runs_.drop();
  proposal_.reset();
  program_.reset();
  enter(StepState::idle, event);
}

std::vector<Rank> StepEngine::senders_to_here() const {
  std::vector<Rank> senders;
  for (const Move& move : step().moves) {
    const bool comes_here = is_remote(move.kind) && topology_.rank_of(move.destination) == channel_->rank();
    if (!comes_here) continue;
    const Rank sender = topology_.rank_of(move.source);
    if (std::ranges::find(senders, sender) == senders.end()) senders.push_back(sender);
  }
  return senders;
}

/// Names (view, attempt) of the attempt in hand. Precondition: there is a proposal.
Tag StepEngine::payload_tag() const {
  constexpr std::uint32_t first = 2;  // behind those of control and of take-overs
  const std::uint64_t number = (std::uint64_t{view_.number} << 16) + proposal_->attempt - 1;
  return Tag{static_cast<std::uint32_t>(first + number % (channel_->capabilities().max_tag - 1))};
}

Status StepEngine::fail_in_doubt(Error why, StepEvent event) {
  last_failure_ = why;
  enter(StepState::in_doubt, event);
  return tl::unexpected<Error>(std::move(why));
}

Error StepEngine::step_error(Errc code, std::string_view what) const {
  return Error{code,
               fmt::format("rank {}: step {} of the program from epoch {}: {} ({})", channel_->rank().value(),
                           step_index_, program_->epoch.value(), what, to_string(code))};
}

EngineHealth StepEngine::health() const {
  EngineHealth health;
  health.state = state_;
  health.state_age = clock_.now() - since_;
  health.epoch = epoch();
  health.last_commit = last_commit_;
  health.failures = counters_.steps_rolled_back + (state_ == StepState::in_doubt ? 1 : 0);
  health.last_failure = last_failure_;
  health.staging_budget_bytes = options_.staging_budget_bytes;
  health.staging_used_bytes = runs_.arena().used_bytes();
  health.staging_peak_bytes = runs_.arena().peak_bytes();
  health.kept_bytes = kept_.size_bytes();
  health.workspace_bytes = store_.workspace_bytes();
  health.transport_buffer_bytes = channel_->capabilities().buffer_bytes;
  return health;
}

}  // namespace trimtab
