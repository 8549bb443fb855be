// SPDX-License-Identifier: Apache-2.0
// The part of StepEngine that is played by messages: from the proposal to the release.
#include "migrate/step_engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace trimtab {

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
  proposal.stall_budget_bytes = stall_budget_bytes_;
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
  if (Status cut = cut_as_proposed(); !cut) return send(MessageKind::agreement, false, cut.error().code, 0);
  const bool same = proposal_->program_hash == program_->hash && proposal_->epoch == epoch().value() &&
                    proposal_->step == step_index_;
  return send(MessageKind::agreement, same, Errc::version_mismatch, 0);
}

/// Builds the program anew when the coordinator has measured another rate than this rank.
Status StepEngine::cut_as_proposed() {
  const bool is_cut = proposal_->stall_budget_bytes == stall_budget_bytes_;
  if (is_cut || !goal_ || step_index_ > 0 || proposal_->stall_budget_bytes == Message::no_budget) return {};
  Result<Program> program = builder_.build(*goal_, epoch(), placement(), proposal_->stall_budget_bytes);
  if (!program) return failure(std::move(program));
  take(std::move(*program), tables_);
  stall_budget_bytes_ = proposal_->stall_budget_bytes;
  return {};
}

Status StepEngine::on_start() {
  if (state_ != StepState::proposed) return {};
  if (Status readable = check_sources(); !readable) {
    cause_ = readable.error();
    return vote(cause_->code, StepEvent::no_room);
  }
  if (observer_ != nullptr) observer_->on_begin(step());
  const auto block = runs_.reserve(StageRun::staging_need(step(), topology_, channel_->rank(), store_));
  if (!block) return vote(Errc::unavailable, StepEvent::no_room);
  runs_.hold(make_run({*channel_, store_, topology_, payload_tag(), options_.source, &kept_}, *block),
             *block);
  enter(StepState::staging, StepEvent::start);
  return {};
}

/// A slot that holds another expert than a move says would give its bytes to the wrong name, unnoticed.
Status StepEngine::check_sources() const {
  for (const Move& move : step().moves) {
    const bool reads_slot = move.kind == MoveKind::transfer || move.kind == MoveKind::local_copy;
    if (!reads_slot || topology_.rank_of(move.source) != channel_->rank()) continue;
    const bool is_held = placement().expert_at(move.layer, move.source) == move.expert;
    if (is_held || kept_.find(move.layer, move.expert, move.source) != nullptr) continue;
    Error gone = step_error(Errc::unavailable,
                            fmt::format("layer {}: expert {} was in slot {}, and could not be kept",
                                        move.layer.value(), move.expert.value(), move.source.value()));
    return failure(gone.code, std::move(gone.message));
  }
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
  next_table_.reset();
  if (!view_.lost.empty() && !find_lost(*next_placement_, topology_).empty()) return {};  // A later step's.
  const TableIdentity identity{Epoch{epoch().value() + 1}, 0};
  Result<RoutingTable> table = tables_ ? tables_->compile(*next_placement_, topology_, identity)
                                       : RoutingTable::compile(*next_placement_, topology_, identity);
  if (!table) return failure(std::move(table));
  next_table_ = std::move(*table);
  return {};
}

Status StepEngine::vote(Errc reason, StepEvent event) {
  has_voted_yes_ = reason == Errc::ok;
  const std::uint64_t slack = view_.lost.empty() ? options_.hold_forwards : 0;
  hold_ = Forward{first_unbegun_.value() + slack};
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
Status StepEngine::commit(StepEvent event) {
  if (!stalled_since_) stalled_since_ = clock_.now();
  enter(StepState::committing, event);
  const Clock::time_point begun = clock_.now();
  runs_.run().exchange();
  builder_.copy_rate().add(runs_.run().bytes_exchanged(), clock_.now() - begun);
  if (Status verified = runs_.run().verify_exchanged(options_.verify_sample, proposal_->attempt); !verified) {
    return fail_in_doubt(std::move(verified).error(), StepEvent::unverified);
  }
  if (next_table_) {
    if (Status published = publish(std::move(*next_table_)); !published)
      return fail_in_doubt(std::move(published).error());
  }
  if (take_over_) displaced_ = displaced_by(step());
  history_.push(std::move(*next_placement_));
  if (!view_.lost.empty()) view_.lost = find_lost(placement(), topology_);
  count_commit();
  if (observer_ != nullptr) observer_->on_commit(step(), epoch());
  enter(StepState::committed, StepEvent::published);
  return {};
}

std::vector<KeptExpert> StepEngine::displaced_by(const Step& step) const {
  std::vector<KeptExpert> displaced;
  const auto add = [&](LayerId layer, SlotId slot) {
    const ExpertId expert = placement().expert_at(layer, slot);
    if (expert != no_expert) displaced.push_back({layer, expert, slot});
  };
  for (const Move& move : step.moves) add(move.layer, move.destination);
  for (const Vacation& vacation : step.vacations) add(vacation.layer, vacation.slot);
  return displaced;
}

/// Once a program is over: what has a slot again need not be kept any more.
void StepEngine::let_go_of_found() {
  view_.kept = choose_kept(view_.lost, view_.kept, topology_);
  kept_.keep_only(view_.kept);
}

Status StepEngine::publish(RoutingTable table) { return publisher_.publish(std::move(table)); }

void StepEngine::count_commit() {
  last_commit_ = clock_.now();
  ++counters_.steps_committed;
  counters_.bytes_moved += runs_.run().bytes_received();
  counters_.bytes_copied += runs_.run().bytes_copied();
  counters_.bytes_recovered += runs_.run().bytes_recovered();
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
    let_go_of_found();
    enter(StepState::idle, StepEvent::release);
  }
  return {};
}

Status StepEngine::send(MessageKind kind, bool yes, Errc reason, std::uint64_t forward) {
  Message message = *proposal_;
  message.kind = kind;
  message.yes = yes ? 1 : 0;
  message.reason = static_cast<std::uint32_t>(reason);
  message.forward = forward;
  return control_.send(control_.coordinator(), message);
}

}  // namespace trimtab
