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

std::uint64_t combine(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t both[]{a, b};
  return checksum_of(std::as_bytes(std::span(both)));
}

}  // namespace

/// Adds its own lifetime to the busy time, if a program runs at either end of it.
class StepEngine::BusyTime {
 public:
  explicit BusyTime(StepEngine& engine)
      : engine_(engine), begun_(engine.clock_.now()), was_idle_(engine.is_idle()) {}
  ~BusyTime() {
    if (!was_idle_ || !engine_.is_idle()) engine_.counters_.busy += engine_.clock_.now() - begun_;
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
    : options_(options),
      clock_(clock),
      store_(store),
      publisher_(publisher),
      topology_(std::move(topology)),
      channel_(std::move(channel)),
      control_(*channel_, live_ranks(topology_)),
      coordinator_(control_, clock, options.deadline),
      history_(publisher.identity().epoch, std::move(placement)),
      runs_(options.staging_budget_bytes) {}

/// Posted receives point into staging and mailboxes: end them before either goes.
StepEngine::~StepEngine() {
  channel_->close();
  channel_->join();
}

Status StepEngine::begin(Program program, std::shared_ptr<const TableCompiler> tables) {
  if (Status fit = check_program(program); !fit) return fit;
  program_ = std::move(program);
  tables_ = std::move(tables);
  program_->hash = combine(program_->hash, store_.bundle_hash());
  if (tables_) program_->hash = combine(program_->hash, tables_->fingerprint());
  step_index_ = 0;
  begin_step(StepEvent::begin);
  return {};
}

Status StepEngine::check_program(const Program& program) const {
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
  return {};
}

void StepEngine::begin_step(StepEvent event) {
  has_voted_yes_ = false;
  cause_.reset();
  if (observer_ != nullptr) observer_->on_begin(step());
  enter(StepState::proposed, event);
}

Result<Admission> StepEngine::advance(Forward next, Clock::duration budget) {
  const Clock::time_point begun = clock_.now();
  first_unbegun_ = std::max(first_unbegun_, next);
  if (Status progressed = progress(budget); !progressed) return failure(std::move(progressed));
  if (state_ == StepState::draining && is_drained(next)) {
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

bool StepEngine::is_drained(Forward next) const { return next >= commit_forward_ && publisher_.is_idle(); }

Status StepEngine::progress(Clock::duration budget) {
  if (state_ == StepState::in_doubt)
    return failure(Errc::closed, "the engine is in doubt: restart this rank");
  const BusyTime busy(*this);
  runs_.release_quiet();
  const Clock::time_point until = clock_.now() + budget;
  for (bool worked = true; worked;) {
    Result<bool> pumped = pump(until);
    if (!pumped) return fail_in_doubt(std::move(pumped).error());
    worked = *pumped && clock_.now() < until;
  }
  return check_deadline();
}

/// One round: propose if it is our turn, hear, answer, stage. True when something happened.
Result<bool> StepEngine::pump(Clock::time_point until) {
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

Status StepEngine::propose() {
  Message proposal;
  proposal.epoch = epoch().value();
  proposal.program_hash = program_->hash;
  proposal.step = static_cast<std::uint32_t>(step_index_);
  return coordinator_.propose(proposal);
}

Result<bool> StepEngine::receive_messages() {
  bool heard = false;
  for (;;) {
    Result<std::optional<Message>> message = control_.receive();
    if (!message) return failure(std::move(message));
    if (!*message) return heard;
    heard = true;
    if (Status handled = on_message(**message); !handled) return failure(std::move(handled));
  }
}

Status StepEngine::on_message(const Message& message) {
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
Status StepEngine::on_proposal(const Message& message) {
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
Status StepEngine::end_overtaken(std::uint64_t by_attempt) {
  if (state_ == StepState::committed) return on_release();
  if (state_ == StepState::staging || state_ == StepState::staged) {
    roll_back(step_error(Errc::cancelled, fmt::format("overtaken by attempt {}", by_attempt)),
              StepEvent::abort);
  }
  return {};
}

Status StepEngine::answer_proposal() {
  has_answered_ = true;
  const bool same = proposal_->program_hash == program_->hash && proposal_->epoch == epoch().value() &&
                    proposal_->step == step_index_;
  return send(MessageKind::agreement, same, Errc::version_mismatch, 0);
}

Status StepEngine::on_start() {
  if (state_ != StepState::proposed) return {};
  const auto block = runs_.reserve(StageRun::staging_need(step(), topology_, channel_->rank(), store_));
  if (!block) return vote(Errc::unavailable, StepEvent::no_room);
  const Tag tag{static_cast<std::uint32_t>(1 + proposal_->attempt % channel_->capabilities().max_tag)};
  runs_.hold(make_run({*channel_, store_, topology_, tag}, *block), *block);
  enter(StepState::staging, StepEvent::start);
  return {};
}

std::unique_ptr<StageRun> StepEngine::make_run(const StageRun::Context& context,
                                               std::span<std::byte> staging) {
  return std::make_unique<StageRun>(context, step(), staging);
}

Result<bool> StepEngine::stage(Clock::time_point until) {
  Result<bool> worked = runs_.run().progress(clock_, until);
  if (worked && !runs_.run().is_complete()) return worked;
  Status ready = worked ? prepare_commit() : failure(std::move(worked));
  if (!ready) cause_ = ready.error();
  Status voted = ready ? vote(Errc::ok, StepEvent::vote_yes) : vote(ready.error().code, StepEvent::vote_no);
  if (!voted) return failure(std::move(voted));
  return true;
}

Status StepEngine::prepare_commit() {
  next_placement_ = apply(placement(), step());
  const TableIdentity identity{Epoch{epoch().value() + 1}, 0};
  Result<RoutingTable> table = tables_ ? tables_->compile(*next_placement_, topology_, identity)
                                       : RoutingTable::compile(*next_placement_, topology_, identity);
  if (!table) return failure(std::move(table));
  next_table_ = std::move(*table);
  return {};
}

Status StepEngine::vote(Errc reason, StepEvent event) {
  has_voted_yes_ = reason == Errc::ok;
  hold_ = Forward{first_unbegun_.value() + options_.hold_forwards};
  enter(StepState::staged, event);
  return send(MessageKind::vote, has_voted_yes_, reason, hold_.value());
}

Status StepEngine::on_decision(const Message& message) {
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
Status StepEngine::commit() {
  if (!stalled_since_) stalled_since_ = clock_.now();
  enter(StepState::committing, StepEvent::drained);
  runs_.run().exchange();
  if (Status verified = runs_.run().verify_exchanged(options_.verify_sample, proposal_->attempt); !verified) {
    return fail_in_doubt(std::move(verified).error(), StepEvent::unverified);
  }
  if (Status published = publish(std::move(*next_table_)); !published) {
    return fail_in_doubt(std::move(published).error());
  }
  history_.push(std::move(*next_placement_));
  count_commit();
  if (observer_ != nullptr) observer_->on_commit(step(), epoch());
  enter(StepState::committed, StepEvent::published);
  Status sent = send(MessageKind::acknowledgement, true, Errc::ok, 0);
  return sent ? sent : fail_in_doubt(std::move(sent).error());
}

Status StepEngine::publish(RoutingTable table) { return publisher_.publish(std::move(table)); }

void StepEngine::count_commit() {
  last_commit_ = clock_.now();
  ++counters_.steps_committed;
  counters_.bytes_moved += runs_.run().bytes_received();
  counters_.bytes_copied += runs_.run().bytes_copied();
  counters_.slots_moved += runs_.run().slots_moved();
}

Status StepEngine::on_release() {
  if (state_ != StepState::committed) return {};
  runs_.drop();
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
Status StepEngine::check_deadline() {
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

Admission StepEngine::admit(Forward next) {
  if (owes_decision() && next >= hold_) return Admission::hold;
  if (state_ == StepState::draining && next >= commit_forward_) return Admission::hold;
  return Admission::go;
}

void StepEngine::enter(StepState state, StepEvent event) {
  const StepState before = std::exchange(state_, state);
  until_ = clock_.now() + 2 * options_.deadline;
  if (observer_ != nullptr) observer_->on_transition(before, event, state);
}

void StepEngine::roll_back(Error why, StepEvent event) {
  last_failure_ = cause_ ? std::move(*cause_) : std::move(why);
  ++counters_.steps_rolled_back;
  runs_.drop();
  proposal_.reset();
  program_.reset();
  enter(StepState::idle, event);
}

Status StepEngine::fail_in_doubt(Error why, StepEvent event) {
  last_failure_ = why;
  enter(StepState::in_doubt, event);
  return tl::unexpected<Error>(std::move(why));
}

Status StepEngine::send(MessageKind kind, bool yes, Errc reason, std::uint64_t forward) {
  Message message = *proposal_;
  message.kind = kind;
  message.yes = yes ? 1 : 0;
  message.reason = static_cast<std::uint32_t>(reason);
  message.forward = forward;
  return control_.send(control_.coordinator(), message);
}

Error StepEngine::step_error(Errc code, std::string_view what) const {
  return Error{code,
               fmt::format("rank {}: step {} of the program from epoch {}: {} ({})", channel_->rank().value(),
                           step_index_, program_->epoch.value(), what, to_string(code))};
}

EngineHealth StepEngine::health() const { return {state_, epoch(), last_commit_, last_failure_}; }

}  // namespace trimtab
