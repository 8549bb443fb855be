// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "migrate/control.hpp"
#include "migrate/message.hpp"

#include <trimtab/core/clock.hpp>

#include <optional>
#include <set>

namespace trimtab {

/// The coordinator's side of a step: proposes, counts agreements, votes and acknowledgements, decides,
/// releases. Lives on the lowest live rank beside that rank's member part, which it talks to like to any
/// other. Not thread-safe. Borrows the control channel and the clock.
class Coordinator {
 public:
  /// One deadline for the waits before the decision, and one for that after it.
  Coordinator(ControlChannel& control, const Clock& clock, Clock::duration deadline,
              Clock::duration decided_deadline)
      : control_(control), clock_(clock), deadline_(deadline), decided_deadline_(decided_deadline) {}

  /// Goes on in a new view, in which `attempt` is committed and waits to be acknowledged; 0: nothing is in
  /// hand.
  void enter_view(std::uint64_t attempt);

  /// Proposes one step to all. `proposal` needs epoch, hash and step; the attempt is numbered here.
  /// Precondition: !is_running().
  Status propose(Message proposal);

  /// Takes an answer of a member. What belongs to an older attempt or does not fit the phase is ignored.
  Status on_message(const Message& message);

  /// Ends a wait whose deadline has passed. Before the decision: abort. Afterwards: `timeout` naming the
  /// first silent rank.
  Status check_deadline();

  /// Aborts what is not decided: the member beside it has rolled back, so no decision but that one can come.
  Status give_up();

  /// Whether an acknowledgement is missing although its deadline has passed.
  [[nodiscard]] bool is_overdue() const { return phase_ == Phase::committing && clock_.now() >= until_; }
  [[nodiscard]] bool is_running() const noexcept { return phase_ != Phase::idle; }

 private:
  enum class Phase : std::uint8_t { idle, agreeing, voting, committing };

  Status on_agreement(const Message& message);
  Status on_vote(const Message& message);
  Status on_acknowledgement(const Message& message);
  void enter(Phase phase);
  Status abort(Errc reason);
  [[nodiscard]] Message reply(MessageKind kind) const;
  /// Marks `from` as heard; true once every member is.
  bool hear(std::int32_t from);

  ControlChannel& control_;
  const Clock& clock_;
  Clock::duration deadline_;
  Clock::duration decided_deadline_;
  Phase phase_ = Phase::idle;
  Clock::time_point until_;
  Message proposal_;
  std::set<std::int32_t> heard_;  ///< Members that answered in this phase.
  std::uint64_t commit_forward_ = 0;
};

}  // namespace trimtab
