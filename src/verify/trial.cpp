// SPDX-License-Identifier: Apache-2.0
#include "verify/trial.hpp"

#include "verify/case_program.hpp"
#include "verify/checked_rank.hpp"
#include "verify/program_outcome.hpp"
#include "verify/random.hpp"
#include "verify/traffic.hpp"
#include "verify/view_trial.hpp"
#include "verify/virtual_clock.hpp"

#include <trimtab/transport/inproc.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace trimtab::verify {
namespace {

class Trial {
 public:
  Trial(const Case& drawn, std::optional<Mutant> mutant, const Story& story)
      : drawn_(drawn), mutant_(mutant), story_(story), random_(mix(drawn.seed)) {}

  Status make_ranks();
  TrialReport run();

 private:
  void violate(Check check, const std::string& what);
  void tell(const std::string& line) const;

  Ending run_program(const Placement& to);
  Ending play(const Program& program);
  void close_case();
  [[nodiscard]] bool is_settled() const;
  void settle(const Program& program);
  [[nodiscard]] Ending ending_of(const Program& program) const;
  void check_ends(const Program& program);
  void check_doubt();
  [[nodiscard]] std::string rolled_back_for_nothing() const;
  [[nodiscard]] bool has_found_corruption() const;

  void tick();
  void drive(std::size_t rank);
  void strike_time_faults();

  [[nodiscard]] Struck struck() const;
  [[nodiscard]] std::uint64_t bytes_moved() const;
  /// A rank that is not in doubt, or null.
  [[nodiscard]] const CheckedRank* any_sure() const;

  const Case& drawn_;
  std::optional<Mutant> mutant_;
  const Story& story_;
  Random random_;
  VirtualClock clock_;
  std::vector<std::unique_ptr<CheckedRank>> ranks_;
  std::optional<Traffic> traffic_;
  std::vector<std::size_t> order_;           ///< Of ranks in a tick.
  std::vector<std::uint64_t> paused_until_;  ///< Tick by rank.
  std::vector<std::uint64_t> begins_at_;     ///< Tick by rank; 0: has begun the program in hand.
  const Program* program_ = nullptr;
  std::uint64_t tick_ = 0;
  bool is_closing_ = false;
  std::vector<bool> has_struck_;  ///< By fault; pauses and jumps only.
  Clock::duration time_lost_{};   ///< To these.
  TrialCounts counts_;
  std::optional<Violation> violation_;
};

Status Trial::make_ranks() {
  auto channels = make_inproc_transports(drawn_.topology.num_ranks());
  if (!channels) return failure(std::move(channels));
  Story story;
  if (story_) story = [this](const std::string& line) { tell(line); };
  for (Rank rank : ids<Rank>(drawn_.topology.num_ranks())) {
    auto made =
        CheckedRank::make({drawn_, rank, clock_, mutant_, story}, std::move((*channels)[rank.index()]));
    if (!made) return failure(std::move(made));
    ranks_.push_back(std::move(*made));
  }
  traffic_.emplace(drawn_.pace, ranks_);
  order_.resize(ranks_.size());
  std::iota(order_.begin(), order_.end(), 0);
  paused_until_.resize(ranks_.size());
  begins_at_.resize(ranks_.size());
  has_struck_.resize(drawn_.faults.size());
  return {};
}

TrialReport Trial::run() {
  counts_.staging_budget_bytes = drawn_.engine.staging_budget_bytes;
  Ending ending = Ending::committed;
  for (const Placement& target : drawn_.targets) {
    if (violation_ || ending == Ending::in_doubt) break;
    ending = run_program(target);
  }
  if (!violation_ && ending != Ending::in_doubt) close_case();
  for (auto& rank : ranks_) {
    rank->check_all();
    counts_.staging_peak_bytes = std::max(counts_.staging_peak_bytes, rank->staging_peak_bytes());
    if (!violation_) violation_ = rank->violation();
  }
  return {counts_, violation_};
}

void Trial::tell(const std::string& line) const {
  const std::chrono::duration<double, std::milli> now = clock_.now().time_since_epoch();
  if (story_) story_(fmt::format("{:>10.3f} ms  {}", now.count(), line));
}

void Trial::violate(Check check, const std::string& what) {
  if (violation_) return;
  violation_ = Violation{check, drawn_.seed, what};
  tell(fmt::format("VIOLATION {}", to_string(*violation_)));
}

/// What was held back arrives and is read, and then a program has to commit: at the latest the first during
/// which none of the faults strikes that are still to come.
void Trial::close_case() {
  is_closing_ = true;
  std::ranges::fill(paused_until_, 0);
  for (auto& rank : ranks_) rank->release_delayed();
  for (int i = 0; i < 50 && !violation_; ++i) tick();
  for (;;) {
    const std::uint64_t before = struck().all;
    const bool is_first = any_sure()->engine().placement() == drawn_.first;
    const Ending ending = run_program(is_first ? drawn_.targets.front() : drawn_.first);
    if (violation_ || ending != Ending::rolled_back) return;
    if (struck().all == before) return violate(Check::alive, "a program without faults was rolled back");
  }
}

Ending Trial::run_program(const Placement& to) {
  const Engine& engine = any_sure()->engine();
  const Placement from = engine.placement();
  if (from == to) return Ending::committed;
  const Result<Program> program = make_program(drawn_, engine.health().epoch, from, to, story_);
  if (!program) {
    violate(Check::alive, fmt::format("no program was found: {}", program.error().message));
    return Ending::rolled_back;
  }
  if (auto wrong = check_program(drawn_, *program, from, to)) {
    violate(wrong->check, wrong->what);
    return Ending::rolled_back;
  }
  return play(*program);
}

/// Ranks begin within a few ticks of each other.
Ending Trial::play(const Program& program) {
  const Struck before = struck();
  const std::uint64_t bytes_before = bytes_moved();
  program_ = &program;
  const std::size_t spread = random_.one_in(2) ? 1 : 4;
  for (std::uint64_t& at : begins_at_) at = tick_ + 1 + random_.below(spread);
  settle(program);
  program_ = nullptr;
  if (!violation_) check_doubt();
  if (!violation_) check_ends(program);
  if (violation_) return Ending::rolled_back;
  const ProgramOutcome outcome{.ending = ending_of(program),
                               .struck = struck() - before,
                               .bytes_moved = bytes_moved() - bytes_before,
                               .found_corruption = has_found_corruption()};
  if (auto wrong = tally(outcome, program, drawn_.seed, counts_)) violate(wrong->check, wrong->what);
  if (outcome.ending == Ending::rolled_back && struck().all == 0)
    violate(Check::alive, rolled_back_for_nothing());
  return outcome.ending;
}

bool Trial::is_settled() const {
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    if (!ranks_[r]->is_in_doubt() && (begins_at_[r] != 0 || !ranks_[r]->is_idle())) return false;
  }
  return true;
}

/// A rank waits in five states of each step, in each for two deadlines at most; two more are for calling
/// late.
void Trial::settle(const Program& program) {
  const auto num_steps = static_cast<std::int64_t>(program.steps.size());
  const Clock::time_point begun = clock_.now();
  const Clock::duration lost_before = time_lost_;
  while (!violation_ && !is_settled()) {
    const Clock::duration limit = num_steps * 12 * drawn_.engine.deadline + time_lost_ - lost_before;
    if (clock_.now() - begun > limit) {
      violate(Check::deadline, fmt::format("the program from epoch {} did not end within {} deadlines",
                                           program.epoch.value(), limit / drawn_.engine.deadline));
    }
    tick();
  }
}

Ending Trial::ending_of(const Program& program) const {
  if (std::ranges::any_of(ranks_, [](const auto& rank) { return rank->is_in_doubt(); }))
    return Ending::in_doubt;
  const Epoch last{program.epoch.value() + program.steps.size()};
  return ranks_.front()->epoch() == last ? Ending::committed : Ending::rolled_back;
}

/// All that are sure stand in one epoch and in one placement.
void Trial::check_ends(const Program& program) {
  const CheckedRank* const first = any_sure();
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    if (ranks_[r]->is_in_doubt()) continue;
    const bool is_same = ranks_[r]->epoch() == first->epoch() &&
                         ranks_[r]->engine().placement() == first->engine().placement();
    if (is_same) continue;
    violate(Check::one_epoch,
            fmt::format("rank {} left the program from epoch {} in epoch {}, another in {}", r,
                        program.epoch.value(), ranks_[r]->epoch().value(), first->epoch().value()));
  }
}

void Trial::check_doubt() {
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    if (!ranks_[r]->is_in_doubt()) continue;
    tell(fmt::format("rank {} is in doubt: {}", r, ranks_[r]->doubt()));
    if (struck().may_doubt == 0) {
      violate(Check::doubt, fmt::format("rank {}, although no control message was lost or late: {}", r,
                                        ranks_[r]->doubt()));
    }
  }
}

std::string Trial::rolled_back_for_nothing() const {
  std::string text = "a program was rolled back although no fault had struck";
  for (const auto& rank : ranks_) {
    const auto failure = rank->engine().health().last_failure;
    if (failure) return text + ": " + failure->message;
  }
  return text;
}

bool Trial::has_found_corruption() const {
  return std::ranges::any_of(ranks_, [](const auto& rank) { return rank->has_found_corruption(); });
}

void Trial::tick() {
  ++tick_;
  clock_.advance(drawn_.pace.tick);
  if (!is_closing_) strike_time_faults();
  random_.shuffle(order_);
  for (std::size_t rank : order_) {
    const bool skips = drawn_.pace.skips_one_in != 0 && random_.one_in(drawn_.pace.skips_one_in);
    if (!skips && paused_until_[rank] <= tick_ && !ranks_[rank]->is_in_doubt()) drive(rank);
    if (violation_) return;
  }
  if (drawn_.pace.skips_forwards) traffic_->skip_forwards(random_);
}

void Trial::drive(std::size_t rank) {
  CheckedRank& checked = *ranks_[rank];
  traffic_->end_batches(rank, tick_);
  if (program_ != nullptr && begins_at_[rank] != 0 && begins_at_[rank] <= tick_) {
    begins_at_[rank] = 0;
    checked.begin(*program_);
  }
  const std::string mixed = traffic_->take_turn(rank, tick_, random_);
  if (!mixed.empty()) violate(Check::one_epoch, mixed);
  if (!violation_) violation_ = checked.violation();
}

void Trial::strike_time_faults() {
  for (std::size_t i = 0; i < drawn_.faults.size(); ++i) {
    const CaseFault& fault = drawn_.faults[i];
    if (is_message_fault(fault.kind) || has_struck_[i] || fault.tick > tick_) continue;
    has_struck_[i] = true;
    time_lost_ += fault.length;
    tell(describe(fault));
    if (fault.kind == FaultKind::jump) {
      clock_.advance(fault.length);
    } else {
      paused_until_[fault.rank.index()] = tick_ + static_cast<std::uint64_t>(fault.length / drawn_.pace.tick);
    }
  }
}

Struck Trial::struck() const {
  Struck struck;
  for (std::size_t i = 0; i < drawn_.faults.size(); ++i) {
    const CaseFault& fault = drawn_.faults[i];
    if (has_struck_[i] || ranks_[fault.rank.index()]->has_struck(i)) struck.add(fault);
  }
  return struck;
}

std::uint64_t Trial::bytes_moved() const {
  return std::accumulate(
      ranks_.begin(), ranks_.end(), std::uint64_t{0},
      [](std::uint64_t sum, const auto& rank) { return sum + rank->engine().counters().bytes_moved; });
}

const CheckedRank* Trial::any_sure() const {
  const auto found = std::ranges::find_if(ranks_, [](const auto& rank) { return !rank->is_in_doubt(); });
  return found == ranks_.end() ? nullptr : found->get();
}

}  // namespace

Result<TrialReport> run_trial(const Case& drawn, std::optional<Mutant> mutant, const Story& story) {
  if (drawn.has_deaths) return run_view_trial(drawn, mutant, story);
  Trial trial(drawn, mutant, story);
  if (Status made = trial.make_ranks(); !made) return failure(std::move(made));
  return trial.run();
}

}  // namespace trimtab::verify
