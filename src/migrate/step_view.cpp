// SPDX-License-Identifier: Apache-2.0
// The part of StepEngine that goes from one view to the next.
#include "migrate/step_engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
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
  const bool is_in_hand = owes_decision() || state_ == StepState::draining || state_ == StepState::committed;
  return {.committed_attempt = state_ == StepState::committed ? proposal_->attempt : 0,
          .attempt_in_hand = is_in_hand ? proposal_->attempt : 0,
          .finished = finished_,
          .is_step_overdue = is_overdue,
          .unheard = unheard_};
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
  view_.number = take_over_->view();
  view_.members = end.members.ranks();
  view_.resume = Forward{end.resume};
  view_.lost = find_lost(placement(), topology_);
  keep_lost(end.is_in_hand != 0);
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

/// The last bundle of a lost expert may be what the commit took out of a slot, if no member has let go of it.
void StepEngine::keep_lost(bool is_in_hand) {
  std::vector<KeptExpert> candidates = view_.kept;
  if (is_in_hand) std::ranges::copy(displaced_, std::back_inserter(candidates));
  view_.kept = choose_kept(view_.lost, candidates, topology_);
  kept_.keep_only(view_.kept);
  for (const KeptExpert& kept : view_.kept) {
    const bool is_here = topology_.rank_of(kept.slot) == channel_->rank();
    if (!is_here || kept_.find(kept.layer, kept.expert, kept.slot) != nullptr) continue;
    if (Result<std::vector<std::byte>> bytes = runs_.run().displaced(kept.layer, kept.slot))
      kept_.add(kept, std::move(*bytes));
  }
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
