// SPDX-License-Identifier: Apache-2.0
#include "migrate/take_over.hpp"

#include "migrate/cut_links.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace trimtab {
namespace {

constexpr std::size_t mailboxes_per_call = 8;

Rank taker_of(std::uint32_t ballot, std::int32_t num_ranks) {
  return Rank{static_cast<std::int32_t>((ballot - 1) % static_cast<std::uint32_t>(num_ranks))};
}

}  // namespace

TakeOver::TakeOver(Transport& channel, const Liveness& liveness, const Clock& clock, Clock::duration deadline,
                   const RankSet& members)
    : rank_(channel.rank()),
      num_ranks_(channel.num_ranks()),
      mailboxes_(channel, tag, sizeof(ViewMessage), mailboxes_per_call),
      liveness_(liveness),
      clock_(clock),
      deadline_(deadline),
      members_(members) {}

Status TakeOver::start() {
  for (Rank peer : members_.ranks()) {
    if (peer == rank_) continue;
    if (Status heard = mailboxes_.listen(peer); !heard) return heard;
  }
  return {};
}

Status TakeOver::progress(const Standing& standing) {
  if (Status heard = hear(standing); !heard) return heard;
  if (chosen_) return {};
  const Clock::time_point now = clock_.now();
  if (promised_ > 0 && !under_way_since_) under_way_since_ = now;
  if (is_my_turn(standing, now)) {
    if (Status prepared = prepare(standing, now); !prepared) return prepared;
  }
  if (phase_ != Phase::none) {
    if (Status led = lead(now); !led || chosen_) return led;
  }
  if (Status repeated = repeat(standing, now); !repeated) return repeated;
  return give_up(now);
}

Status TakeOver::hear(const Standing& standing) {
  for (;;) {
    const Result<std::optional<Mailboxes::Received>> received = mailboxes_.receive();
    if (!received) return tl::unexpected(received.error());
    if (!*received) return {};
    ViewMessage message;
    std::memcpy(&message, (*received)->bytes.data(), sizeof message);
    if (!is_intact(message) || message.rank != (*received)->from.value()) continue;  // As good as lost.
    if (Status handled = on_message(message, standing); !handled) return handled;
  }
}

Status TakeOver::on_message(const ViewMessage& message, const Standing& standing) {
  if (message.view < view_) return tell_end(message);
  if (message.view > view_ && message.kind == ViewMessageKind::chosen) ahead_[message.view] = message.end;
  if (message.view > view_ || chosen_) return {};
  switch (message.kind) {
    case ViewMessageKind::prepare:
      return on_prepare(message, standing);
    case ViewMessageKind::outcome:
      return on_outcome(message);
    case ViewMessageKind::promise:
      on_promise(message);
      return {};
    case ViewMessageKind::accept:
      on_accept(message);
      return {};
    case ViewMessageKind::chosen:
      chosen_ = message.end;
      return {};
  }
  return {};
}

/// Who is behind has missed how a view ended, and may be out of the next one.
Status TakeOver::tell_end(const ViewMessage& behind) {
  const auto end = ends_.find(behind.view);
  if (behind.kind == ViewMessageKind::chosen || end == ends_.end()) return {};
  return send(Rank{behind.rank}, end->second);
}

/// A repeated one is answered again: the first promise may be lost. It says the same, for nothing of this
/// view is followed in between.
Status TakeOver::on_prepare(const ViewMessage& message, const Standing& standing) {
  if (message.ballot < promised_) return {};
  if (message.ballot > promised_) {
    promised_ = message.ballot;
    phase_ = Phase::none;
    ballot_since_ = clock_.now();
  }
  return send(Rank{message.rank}, make_promise(standing));
}

Status TakeOver::on_outcome(const ViewMessage& message) {
  if (message.ballot < promised_) return {};
  if (message.ballot > promised_) {
    phase_ = Phase::none;
    ballot_since_ = clock_.now();
  }
  promised_ = message.ballot;
  accepted_ = message.ballot;
  accepted_end_ = message.end;
  return send(Rank{message.rank}, make(ViewMessageKind::accept));
}

/// What an older ballot may have chosen is proposed again; else one committed step is the outcome.
void TakeOver::on_promise(const ViewMessage& message) {
  if (phase_ != Phase::preparing || message.ballot != promised_) return;
  const bool is_first = answered_.is_empty();
  answered_.insert(Rank{message.rank});
  unheard_[Rank{message.rank}] = message.unheard;
  if (message.accepted_ballot > newest_accepted_) {
    newest_accepted_ = message.accepted_ballot;
    outcome_ = message.end;
  }
  if (newest_accepted_ > 0) return;
  outcome_.attempt = std::max(outcome_.attempt, message.attempt);
  outcome_.resume = is_first ? message.finished : std::min(outcome_.resume, message.finished);
}

void TakeOver::on_accept(const ViewMessage& message) {
  if (phase_ == Phase::proposing && message.ballot == promised_) answered_.insert(Rank{message.rank});
}

/// There is cause to end the view when a member is silent, the step in hand cannot end, a forward cannot, or
/// a taker has not ended it. Ranks then take turns, those that are silent left out. Who is at the other end
/// of a cut link needs a moment to notice it too.
bool TakeOver::is_my_turn(const Standing& standing, Clock::time_point now) {
  const bool waits_for_taker = promised_ > 0;
  std::int32_t turn = 0;
  bool is_any_silent = false;
  for (Rank rank : members_.ranks()) {
    const bool is_awake = rank == rank_ || health_of(rank) == RankHealth::alive;
    is_any_silent = is_any_silent || !is_awake;
    if (is_awake && rank < rank_) ++turn;
  }
  const bool is_certain = is_any_silent || standing.is_step_overdue;
  if (!is_certain && standing.unheard.peers.is_empty() && !waits_for_taker) {
    cause_since_.reset();
    return false;
  }
  if (!cause_since_) cause_since_ = now;
  const Clock::duration grace = is_certain ? Clock::duration(0) : deadline_ / 2;
  if (!waits_for_taker) return now >= *cause_since_ + grace + turn * deadline_;
  const bool is_taker_gone = health_of(taker_of(promised_, num_ranks_)) != RankHealth::alive;
  return (is_taker_gone && turn == 0) || now >= ballot_since_ + (turn + 1) * deadline_;
}

/// With a ballot above all this rank has heard of, and its own.
Status TakeOver::prepare(const Standing& standing, Clock::time_point now) {
  const auto ranks = static_cast<std::uint32_t>(num_ranks_);
  const std::uint32_t round = (promised_ + ranks - 1) / ranks;
  promised_ = round * ranks + static_cast<std::uint32_t>(rank_.value()) + 1;
  ballot_since_ = now;
  phase_ = Phase::preparing;
  answered_ = {};
  unheard_.clear();
  newest_accepted_ = 0;
  outcome_ = {};
  on_promise(make_promise(standing));
  repeat_at_ = now + deadline_ / 8;
  return broadcast(make(ViewMessageKind::prepare));
}

/// Waits for all that seem awake, so that they are in the next view; silent ones that answer are welcome.
Status TakeOver::lead(Clock::time_point now) {
  const bool is_late = now >= ballot_since_ + deadline_ / 2;
  const bool may_go_on = is_quorum(answered_) && (is_late || has_all_awake(answered_));
  if (phase_ == Phase::preparing && may_go_on) {
    if (Status proposed = propose(); !proposed) return proposed;
  }
  return phase_ == Phase::proposing && is_quorum(answered_) ? choose() : Status{};
}

Status TakeOver::propose() {
  if (newest_accepted_ == 0) outcome_.members = without_cut_links(answered_, unheard_);
  phase_ = Phase::proposing;
  accepted_ = promised_;
  accepted_end_ = outcome_;
  answered_ = {};
  answered_.insert(rank_);
  return broadcast(make(ViewMessageKind::outcome));
}

Status TakeOver::choose() {
  chosen_ = outcome_;
  return broadcast(make(ViewMessageKind::chosen));
}

/// Messages may be lost. Who waits for a taker that has gone on learns so by its answer.
Status TakeOver::repeat(const Standing& standing, Clock::time_point now) {
  if (promised_ == 0 || now < repeat_at_) return {};
  repeat_at_ = now + deadline_ / 8;
  if (phase_ == Phase::preparing) return broadcast(make(ViewMessageKind::prepare));
  if (phase_ == Phase::proposing) return broadcast(make(ViewMessageKind::outcome));
  const Rank taker = taker_of(promised_, num_ranks_);
  return send(taker, accepted_ == promised_ ? make(ViewMessageKind::accept) : make_promise(standing));
}

Status TakeOver::give_up(Clock::time_point now) const {
  constexpr int patience = 3;
  if (!under_way_since_ || now < *under_way_since_ + patience * deadline_) return {};
  return failure(Errc::peer_lost,
                 fmt::format("rank {}: view {} of {} ranks could not be ended: no quorum answers",
                             rank_.value(), view_, members_.size()));
}

void TakeOver::enter_next() {
  ViewMessage end = make(ViewMessageKind::chosen);
  end.end = *chosen_;
  ends_.emplace(view_, end);
  ++view_;
  members_ = chosen_->members;
  promised_ = 0;
  accepted_ = 0;
  chosen_.reset();
  phase_ = Phase::none;
  cause_since_.reset();
  under_way_since_.reset();
  // Nobody says it again to a rank that is not in the view after.
  if (const auto ahead = ahead_.find(view_); ahead != ahead_.end()) chosen_ = ahead->second;
  ahead_.erase(ahead_.begin(), ahead_.upper_bound(view_));
}

/// A majority; at a tie the half with the lowest rank; or all that are not known to be dead. The dead stay in
/// the denominator: they may have been in a quorum that nobody alive remembers.
bool TakeOver::is_quorum(const RankSet& ranks) const {
  const std::vector<Rank> members = members_.ranks();
  const std::size_t twice = 2 * ranks.size();
  if (twice > members.size() || (twice == members.size() && ranks.contains(members.front()))) return true;
  return std::ranges::all_of(
      members, [&](Rank rank) { return ranks.contains(rank) || health_of(rank) == RankHealth::dead; });
}

bool TakeOver::has_all_awake(const RankSet& ranks) const {
  return std::ranges::all_of(members_.ranks(), [&](Rank rank) {
    return ranks.contains(rank) || health_of(rank) != RankHealth::alive;
  });
}

RankHealth TakeOver::health_of(Rank rank) const noexcept {
  return rank == rank_ ? RankHealth::alive : liveness_.health_of(rank);
}

ViewMessage TakeOver::make(ViewMessageKind kind) const {
  ViewMessage message;
  message.kind = kind;
  message.view = view_;
  message.ballot = promised_;
  message.rank = rank_.value();
  message.end = outcome_;
  return message;
}

ViewMessage TakeOver::make_promise(const Standing& standing) const {
  ViewMessage message = make(ViewMessageKind::promise);
  message.accepted_ballot = accepted_;
  message.attempt = standing.committed_attempt;
  message.finished = standing.finished.value();
  message.unheard = standing.unheard;
  message.end = accepted_end_;
  return message;
}

Status TakeOver::send(Rank to, ViewMessage message) {
  message.rank = rank_.value();
  seal(message);
  return mailboxes_.send(to, std::as_bytes(std::span(&message, 1)));
}

Status TakeOver::broadcast(const ViewMessage& message) {
  for (Rank rank : members_.ranks()) {
    if (rank == rank_) continue;
    if (Status sent = send(rank, message); !sent) return sent;
  }
  return {};
}

}  // namespace trimtab
