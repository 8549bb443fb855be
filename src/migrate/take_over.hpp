// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "migrate/view_message.hpp"
#include "transport/mailboxes.hpp"

#include <trimtab/core/clock.hpp>
#include <trimtab/transport/liveness.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace trimtab {

/// What a rank promises a taker by.
struct Standing {
  std::uint64_t committed_attempt = 0;  ///< Committed here and not yet released; 0: none.
  Forward finished;                     ///< All forwards below are done here.
  bool is_step_overdue = false;         ///< The step in hand cannot end any more but by a take-over.
  Unheard unheard{};                    ///< Members that seem alive.
};

/// One rank's part in ending a view: a synod (Lamport, "The part-time parliament", 1998) per view, whose
/// value is how the view ends and who is in the next one (docs/design/0011-protocol-model.md).
///
/// The lowest member that is not silent takes over at once when another one is; the others wait their turn.
/// What it says and hears may be lost, late or repeated. Not thread-safe. Borrows everything.
class TakeOver {
 public:
  static constexpr Tag tag{1};

  TakeOver(Transport& channel, const Liveness& liveness, const Clock& clock, Clock::duration deadline,
           const RankSet& members);

  /// Posts the receives. Call once before anything else.
  Status start();

  /// Hears, answers, and takes over if it is this rank's turn.
  /// @return `peer_lost` when no quorum answers within three deadlines; errors of the channel.
  Status progress(const Standing& standing);

  /// Whether this rank has promised, so that it follows no coordinator of this view any more.
  [[nodiscard]] bool is_under_way() const noexcept { return promised_ > 0 || chosen_.has_value(); }
  /// How the view has ended, once it has.
  [[nodiscard]] const std::optional<ViewEnd>& chosen() const noexcept { return chosen_; }
  /// Goes on in the next view. Precondition: chosen, and this rank is in it.
  void enter_next();

  [[nodiscard]] std::uint32_t view() const noexcept { return view_; }
  [[nodiscard]] const RankSet& members() const noexcept { return members_; }

 private:
  enum class Phase : std::uint8_t { none, preparing, proposing };

  Status hear(const Standing& standing);
  Status on_message(const ViewMessage& message, const Standing& standing);
  Status tell_end(const ViewMessage& behind);
  Status on_prepare(const ViewMessage& message, const Standing& standing);
  Status on_outcome(const ViewMessage& message);
  void on_promise(const ViewMessage& message);
  void on_accept(const ViewMessage& message);

  [[nodiscard]] bool is_my_turn(const Standing& standing, Clock::time_point now);
  Status prepare(const Standing& standing, Clock::time_point now);
  Status lead(Clock::time_point now);
  Status propose();
  Status choose();
  Status repeat(const Standing& standing, Clock::time_point now);
  [[nodiscard]] Status give_up(Clock::time_point now) const;

  [[nodiscard]] bool is_quorum(const RankSet& ranks) const;
  [[nodiscard]] bool has_all_awake(const RankSet& ranks) const;
  [[nodiscard]] RankHealth health_of(Rank rank) const noexcept;
  [[nodiscard]] ViewMessage make(ViewMessageKind kind) const;
  [[nodiscard]] ViewMessage make_promise(const Standing& standing) const;
  Status send(Rank to, ViewMessage message);
  Status broadcast(const ViewMessage& message);

  Rank rank_;
  std::int32_t num_ranks_;
  Mailboxes mailboxes_;
  const Liveness& liveness_;
  const Clock& clock_;
  Clock::duration deadline_;

  std::uint32_t view_ = 0;
  RankSet members_;
  std::map<std::uint32_t, ViewMessage> ends_;  ///< `chosen` of the views before: for who is behind.
  std::map<std::uint32_t, ViewEnd> ahead_;     ///< Of later views, heard while this rank was behind.

  // Of this view.
  std::uint32_t promised_ = 0;  ///< Highest ballot.
  std::uint32_t accepted_ = 0;
  ViewEnd accepted_end_;
  std::optional<ViewEnd> chosen_;
  Phase phase_ = Phase::none;  ///< Of this rank as the taker of ballot promised_.
  RankSet answered_;
  std::map<Rank, Unheard> unheard_;    ///< What the promises say.
  std::uint32_t newest_accepted_ = 0;  ///< Among the promises.
  ViewEnd outcome_;                    ///< That they lead to; then the one proposed.
  std::optional<Clock::time_point> cause_since_;
  std::optional<Clock::time_point> under_way_since_;
  Clock::time_point ballot_since_;  ///< Of the ballot promised last.
  Clock::time_point repeat_at_;
};

}  // namespace trimtab
