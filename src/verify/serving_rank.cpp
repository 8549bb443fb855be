// SPDX-License-Identifier: Apache-2.0
#include "verify/serving_rank.hpp"

#include "verify/case_program.hpp"
#include "verify/draw_deaths.hpp"
#include "verify/view_goal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace trimtab::verify {

ServingRank::ServingRank(const Setup& setup)
    : setup_(setup),
      random_(mix(setup.checked.drawn.seed + 2) + static_cast<std::uint64_t>(setup.checked.rank.value())),
      moved_at_(setup.checked.clock.now()) {}

Result<std::unique_ptr<ServingRank>> ServingRank::make(const Setup& setup,
                                                       std::unique_ptr<Transport> channel) {
  std::unique_ptr<ServingRank> rank(new ServingRank(setup));
  auto checked = CheckedRank::make(setup.checked, std::move(channel));
  if (!checked) return failure(std::move(checked));
  rank->checked_ = std::move(*checked);
  return rank;
}

void ServingRank::drive() {
  if (is_out()) return;
  end_batches();
  if (checked_->num_in_flight() > 0) checked_->progress();
  note_program_end();
  if (!is_out()) begin_program();
  if (!is_out()) take_turn();
  if (!is_out()) check_patience();
}

void ServingRank::end_batches() {
  for (Batch& batch : in_flight_) batch.turns_left = std::max(0, batch.turns_left - 1);
  while (!in_flight_.empty() && in_flight_.front().turns_left == 0) {
    const Batch& batch = in_flight_.front();
    const std::vector<Rank> unheard = unheard_of(batch.forward);
    if (!unheard.empty()) {
      const bool is_late = setup_.checked.clock.now() > batch.begun + setup_.forward_deadline;
      if (is_late) std::ranges::for_each(unheard, [&](Rank rank) { checked_->note_unheard(rank); });
      return;
    }
    checked_->end_batch();
    in_flight_.pop_front();
  }
}

/// The members whose part of a forward has not come.
std::vector<Rank> ServingRank::unheard_of(Forward forward) const {
  const View& view = engine().view();
  std::vector<Rank> unheard;
  std::ranges::copy_if(view.members, std::back_inserter(unheard), [&](Rank member) {
    return is_cut(setup_.checked.drawn, setup_.board.is_cut(), setup_.checked.rank, member) ||
           !setup_.board.has_begun(member, view.number, forward);
  });
  return unheard;
}

void ServingRank::take_turn() {
  const CheckedRank::Turn turn = checked_->take_turn(next_);
  if (turn == CheckedRank::Turn::began) on_began();
  if (turn == CheckedRank::Turn::renewed) on_renewed();
  if (checked_->num_in_flight() == 0) in_flight_.clear();
  note_program_end();
}

void ServingRank::on_began() {
  moved_at_ = setup_.checked.clock.now();
  const std::uint32_t view = engine().view().number;
  in_flight_.push_back({next_, random_.within(0, setup_.checked.drawn.pace.max_batch_ticks), moved_at_});
  setup_.board.begin(setup_.checked.rank, view, next_);
  const Epoch epoch = checked_->newest_epoch();
  if (const std::optional<Epoch> other = setup_.board.serve(view, next_, epoch)) {
    violate(Check::one_epoch,
            fmt::format("view {}, forward {}: served under epoch {}, by another rank under {}", view,
                        next_.value(), epoch.value(), other->value()));
  }
  next_ = next_.next();
}

void ServingRank::on_renewed() {
  moved_at_ = setup_.checked.clock.now();
  next_ = engine().view().resume;
  position_ = 0;
}

/// A step that a view ended with a commit is over only when it is released there.
void ServingRank::note_program_end() {
  if (!program_ || is_out() || !checked_->is_idle()) return;
  if (checked_->has_committed_all()) {
    ++ended_.committed;
    ended_.bytes_moved += program_->cost.bytes_moved;
    ended_.bytes_lower_bound += program_->cost.bytes_moved_bound;
  } else {
    ++ended_.rolled_back;
  }
  program_.reset();
  ++position_;
  turns_to_begin_ = random_.within(0, 3);
}

void ServingRank::begin_program() {
  if (program_ || !checked_->is_idle() || position_ >= num_programs() || turns_to_begin_-- > 0) return;
  const Placement from = engine().placement();
  const std::optional<Placement> to = goal();
  if (to && *to == from) {
    ++position_;
    return;
  }
  const Case& drawn = setup_.checked.drawn;
  Result<Program> program =
      to ? make_program(drawn, engine().topology(), engine().health().epoch, from, *to, setup_.checked.story)
         : failure(Errc::infeasible, "fewer live slots than experts");
  if (!program) {
    position_ = num_programs();
    const bool may_fail = program.error().code == Errc::infeasible && engine().view().number > 0;
    if (!may_fail) violate(Check::alive, fmt::format("no program was found: {}", program.error().message));
    return;
  }
  if (auto wrong = check_program(drawn, *program, from, *to)) violate(wrong->check, wrong->what);
  program_ = std::move(*program);
  checked_->begin(*program_);
}

std::optional<Placement> ServingRank::goal() const {
  const Case& drawn = setup_.checked.drawn;
  const std::size_t at = (engine().view().number + position_) % (drawn.targets.size() + 1);
  return goal_among_living(at == drawn.targets.size() ? drawn.first : drawn.targets[at], engine().topology());
}

/// As many in the first view that a fault at a late moment still meets one.
std::size_t ServingRank::num_programs() const noexcept {
  constexpr std::size_t fewest = 3;
  constexpr std::size_t in_later_views = 2;
  return engine().view().number > 0 ? in_later_views : std::max(fewest, setup_.checked.drawn.targets.size());
}

bool ServingRank::is_done() const noexcept {
  return !program_ && checked_->is_idle() && position_ >= num_programs();
}

/// Without a program, who holds its forwards for an expert that nobody has waits for ever.
void ServingRank::check_patience() {
  const Clock::time_point now = setup_.checked.clock.now();
  const StepState state = engine().health().state;
  const bool is_waiting_rightly = is_held() && !program_;
  if (std::exchange(last_state_, state) != state || is_waiting_rightly) moved_at_ = now;
  if (now - moved_at_ <= setup_.patience) return;
  violate(Check::deadline,
          fmt::format("view {}, forward {}, state {}: neither served nor changed its state for {} deadlines",
                      engine().view().number, next_.value(), to_string(state),
                      setup_.patience / setup_.checked.drawn.engine.deadline));
}

TrialCounts ServingRank::counts() const {
  TrialCounts counts = ended_;
  counts.in_doubt = program_ ? 1 : 0;
  counts.programs = counts.committed + counts.rolled_back + counts.in_doubt;
  counts.in_doubt_resolved = checked_->num_resolved();
  counts.views = engine().view().number;
  counts.staging_peak_bytes = checked_->staging_peak_bytes();
  counts.staging_budget_bytes = setup_.checked.drawn.engine.staging_budget_bytes;
  return counts;
}

void ServingRank::finish() {
  if (!is_out()) {
    for (; !in_flight_.empty(); in_flight_.pop_front()) checked_->end_batch();
  }
  checked_->check_all();
}

void ServingRank::violate(Check check, const std::string& what) {
  if (violation_ || checked_->violation()) return;
  violation_ = Violation{check, setup_.checked.drawn.seed,
                         fmt::format("rank {}, {}", setup_.checked.rank.value(), what)};
  if (setup_.checked.story) setup_.checked.story(fmt::format("VIOLATION {}", to_string(*violation_)));
}

}  // namespace trimtab::verify
