// SPDX-License-Identifier: Apache-2.0
#include "migrate/coordinator.hpp"

#include <trimtab/core/assert.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace trimtab {

Status Coordinator::propose(Message proposal) {
  TRIMTAB_ASSERT(!is_running());
  proposal.kind = MessageKind::propose;
  proposal.attempt = proposal_.attempt + 1;
  proposal_ = proposal;
  enter(Phase::agreeing);
  return control_.broadcast(proposal_);
}

void Coordinator::enter_view(std::uint64_t attempt) {
  proposal_ = {};
  proposal_.attempt = attempt;
  enter(attempt > 0 ? Phase::committing : Phase::idle);
}

Status Coordinator::on_message(const Message& message) {
  if (!is_running() || message.attempt != proposal_.attempt) return {};
  switch (message.kind) {
    case MessageKind::agreement:
      return on_agreement(message);
    case MessageKind::vote:
      return on_vote(message);
    case MessageKind::acknowledgement:
      return on_acknowledgement(message);
    default:
      return {};
  }
}

Status Coordinator::on_agreement(const Message& message) {
  if (phase_ != Phase::agreeing) return {};
  if (message.yes == 0) return abort(static_cast<Errc>(message.reason));
  if (!hear(message.rank)) return {};
  enter(Phase::voting);
  commit_forward_ = 0;
  return control_.broadcast(reply(MessageKind::start));
}

Status Coordinator::on_vote(const Message& message) {
  if (phase_ != Phase::voting) return {};
  if (message.yes == 0) return abort(static_cast<Errc>(message.reason));
  commit_forward_ = std::max(commit_forward_, message.forward);
  if (!hear(message.rank)) return {};
  enter(Phase::committing);
  Message decision = reply(MessageKind::decision);
  decision.yes = 1;
  decision.forward = commit_forward_;
  return control_.broadcast(decision);
}

Status Coordinator::on_acknowledgement(const Message& message) {
  if (phase_ != Phase::committing || !hear(message.rank)) return {};
  enter(Phase::idle);
  return control_.broadcast(reply(MessageKind::release));
}

Status Coordinator::check_deadline() {
  if (!is_running() || clock_.now() < until_) return {};
  if (phase_ != Phase::committing) return abort(Errc::timeout);
  const auto silent =
      std::ranges::find_if(control_.members(), [&](Rank r) { return !heard_.contains(r.value()); });
  return failure(Errc::timeout,
                 fmt::format("step {} of epoch {}: rank {} did not acknowledge the commit in time",
                             proposal_.step, proposal_.epoch, silent->value()));
}

Status Coordinator::give_up() {
  return phase_ == Phase::agreeing || phase_ == Phase::voting ? abort(Errc::timeout) : Status{};
}

void Coordinator::enter(Phase phase) {
  phase_ = phase;
  heard_.clear();
  until_ = clock_.now() + (phase == Phase::committing ? decided_deadline_ : deadline_);
}

Status Coordinator::abort(Errc reason) {
  enter(Phase::idle);
  Message decision = reply(MessageKind::decision);
  decision.reason = static_cast<std::uint32_t>(reason);
  return control_.broadcast(decision);
}

Message Coordinator::reply(MessageKind kind) const {
  Message message = proposal_;
  message.kind = kind;
  return message;
}

bool Coordinator::hear(std::int32_t from) {
  heard_.insert(from);
  return heard_.size() == control_.members().size();
}

}  // namespace trimtab
