// SPDX-License-Identifier: Apache-2.0
// The part of StepEngine that goes from one view to the next.
#include "migrate/step_engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace trimtab {
namespace {

/// `topology` with the members alive and nobody else.
Result<Topology> with_members(const Topology& topology, const RankSet& members) {
  std::vector<RankInfo> ranks;
  for (Rank rank : ids<Rank>(topology.num_ranks())) {
    ranks.push_back(topology.rank(rank));
    ranks.back().is_alive = members.contains(rank);
  }
  return Topology::make(std::move(ranks));
}

}  // namespace

Standing StepEngine::standing() const {
  const bool is_member_overdue = !is_idle() && !may_roll_back_alone() && clock_.now() >= until_;
  const bool is_overdue = is_member_overdue || (control_.is_coordinator() && coordinator_.is_overdue());
  return {state_ == StepState::committed ? proposal_->attempt : 0, finished_, is_overdue, unheard_};
}

void StepEngine::note_finished(Forward finished) {
  finished_ = std::max(finished_, finished);
  if (unheard_.forward < finished_.value()) unheard_ = {};
}

void StepEngine::note_unheard(Forward forward, Rank peer) {
  if (!take_over_ || peer == channel_->rank() || !take_over_->members().contains(peer)) return;
  if (unheard_.forward != forward.value()) unheard_ = {forward.value(), {}};
  unheard_.peers.insert(peer);
}

Status StepEngine::watch_view() {
  Status progressed = take_over_->progress(standing());
  if (progressed) return progressed;
  const bool has_no_quorum = progressed.error().code == Errc::peer_lost;
  return fail_in_doubt(std::move(progressed).error(),
                       has_no_quorum ? StepEvent::no_quorum : StepEvent::failed);
}

/// Nobody reads slots or tables of this rank now.
Status StepEngine::enter_view() {
  const ViewEnd end = *take_over_->chosen();
  if (!end.members.contains(channel_->rank())) {
    return fail_in_doubt(
        {Errc::peer_lost,
         fmt::format("rank {} is not in view {}: it was silent for too long, or a link of it is cut",
                     channel_->rank().value(), view_.number + 1)},
        StepEvent::excluded);
  }
  if (Status ended = end.attempt > 0 ? end_by_commit(end.attempt) : end_by_abort(); !ended) return ended;
  Result<Topology> topology = with_members(topology_, end.members);
  if (!topology) return fail_in_doubt(std::move(topology).error());
  topology_ = std::move(*topology);
  take_over_->enter_next();
  view_ = {take_over_->view(), end.members.ranks(), Forward{end.resume}, find_lost(placement(), topology_)};
  newest_attempt_ = end.attempt;
  first_unbegun_ = view_.resume;
  finished_ = view_.resume;
  unheard_ = {};
  coordinator_.enter_view(end.attempt);
  if (Status entered = control_.enter_view(view_.number, view_.members); !entered)
    return fail_in_doubt(std::move(entered).error());
  if (Status published = publish_masked(); !published) return fail_in_doubt(std::move(published).error());
  if (observer_ != nullptr) observer_->on_view(view_);
  if (end.attempt == 0) return {};
  Message committed;
  committed.attempt = end.attempt;
  committed.kind = MessageKind::acknowledgement;
  committed.yes = 1;
  return control_.send(control_.coordinator(), committed);
}

/// Who was released already acknowledges again: the others may not know. What followed the step is dropped.
Status StepEngine::end_by_commit(std::uint64_t attempt) {
  const bool is_in_hand = proposal_ && proposal_->attempt == attempt;
  if (is_in_hand && (owes_decision() || state_ == StepState::draining)) {
    if (Status committed = commit(StepEvent::new_view_commit); !committed) return committed;
  } else if (is_in_hand && state_ == StepState::committed) {
    enter(StepState::committed, StepEvent::new_view_commit);
  } else if (state_ == StepState::proposed) {
    roll_back(step_error(Errc::cancelled, "its view has ended"), StepEvent::new_view_commit);
  } else if (is_idle()) {
    enter(StepState::idle, StepEvent::new_view_commit);
  } else {
    return fail_in_doubt(step_error(Errc::corrupt, "its view ended with a commit that this rank cannot do"));
  }
  if (program_) program_->steps.resize(step_index_ + 1);
  return {};
}

Status StepEngine::end_by_abort() {
  if (is_idle()) {
    proposal_.reset();
    return {};
  }
  if (state_ == StepState::committed)
    return fail_in_doubt(
        step_error(Errc::corrupt, "its view ended without the step that this rank committed"));
  roll_back(step_error(Errc::cancelled, "its view has ended"), StepEvent::new_view_abort);
  return {};
}

/// The placement stays as it is; a table of the next epoch leaves out the slots of ranks that are gone. There
/// is none as long as an expert has no slot.
Status StepEngine::publish_masked() {
  const TableIdentity identity{epoch().next(), 0};
  history_.push(placement());
  if (!view_.lost.empty()) return {};
  Result<RoutingTable> table = RoutingTable::compile(placement(), topology_, identity);
  if (!table) return failure(std::move(table));
  return publisher_.publish(std::move(*table));
}

}  // namespace trimtab
