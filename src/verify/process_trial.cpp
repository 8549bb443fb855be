// SPDX-License-Identifier: Apache-2.0
#include "verify/process_trial.hpp"

#include "verify/beats.hpp"
#include "verify/case_program.hpp"
#include "verify/checked_rank.hpp"
#include "verify/program_outcome.hpp"
#include "verify/traffic.hpp"

#include <trimtab/transport/collectives.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>

namespace trimtab::verify {
namespace {

constexpr Tag beat_tag{1};
constexpr Tag collective_tag{2};

/// A violation as it travels; longer text is cut.
struct WireViolation {
  std::uint32_t is_set = 0;
  std::uint32_t check = 0;
  std::array<char, 504> what{};
};

class ProcessTrial {
 public:
  ProcessTrial(const Case& drawn, Transport& root, const Clock& clock)
      : drawn_(drawn), root_(root), clock_(clock), beats_(root, beat_tag) {}

  Status make_rank();
  Result<TrialReport> run();

 private:
  void violate(Check check, const std::string& what);
  Result<Ending> run_program(const Placement& to);
  Result<Ending> play(const Program& program);
  Result<bool> serve_forward();
  void begin_forward();
  void check_beats(const std::vector<Beat>& beats);
  void pause_if_due();
  Result<ProgramOutcome> reduce(Ending ending, const Struck& before, std::uint64_t bytes_before);
  Status agree_on_violation();
  Status gather_peak();
  [[nodiscard]] Struck struck() const;
  [[nodiscard]] std::uint64_t bytes_moved() const { return rank_->engine().counters().bytes_moved; }
  [[nodiscard]] Clock::duration patience() const { return process_patience(drawn_.engine.deadline); }

  const Case& drawn_;
  Transport& root_;
  const Clock& clock_;
  Beats beats_;
  std::unique_ptr<CheckedRank> rank_;
  Forward next_;
  bool is_doubtful_ = false;  ///< Some rank is.
  std::vector<bool> has_paused_;
  TrialCounts counts_;
  std::optional<Violation> violation_;
};

Status ProcessTrial::make_rank() {
  Result<std::unique_ptr<Transport>> channel = root_.open_channel();
  if (!channel) return failure(std::move(channel));
  auto made = CheckedRank::make({drawn_, root_.rank(), clock_}, std::move(*channel));
  if (!made) return failure(std::move(made));
  rank_ = std::move(*made);
  has_paused_.resize(drawn_.faults.size());
  return {};
}

/// Violations are agreed on after each program, so that all ranks stop together.
Result<TrialReport> ProcessTrial::run() {
  for (const Placement& target : drawn_.targets) {
    const Result<Ending> ending = run_program(target);
    if (!ending) return tl::unexpected<Error>(ending.error());
    if (violation_ || *ending == Ending::in_doubt) break;
  }
  rank_->check_all();
  if (Status agreed = agree_on_violation(); !agreed) return failure(std::move(agreed));
  if (Status gathered = gather_peak(); !gathered) return failure(std::move(gathered));
  return TrialReport{counts_, violation_};
}

void ProcessTrial::violate(Check check, const std::string& what) {
  if (!violation_) violation_ = Violation{check, drawn_.seed, what};
}

Result<Ending> ProcessTrial::run_program(const Placement& to) {
  const Placement from = rank_->engine().placement();
  if (from == to) return Ending::committed;
  const Result<Program> program = make_program(drawn_, rank_->epoch(), from, to, {});
  if (!program) return tl::unexpected<Error>(program.error());
  if (auto wrong = check_program(drawn_, *program, from, to)) violate(wrong->check, wrong->what);
  return play(*program);
}

Result<Ending> ProcessTrial::play(const Program& program) {
  const Struck before = struck();
  const std::uint64_t bytes_before = bytes_moved();
  rank_->begin(program);
  for (bool is_over = false; !is_over;) {
    Result<bool> served = serve_forward();
    if (!served) return failure(std::move(served));
    is_over = *served;
  }
  const Epoch last{program.epoch.value() + program.steps.size()};
  const Ending ending = is_doubtful_             ? Ending::in_doubt
                        : rank_->epoch() == last ? Ending::committed
                                                 : Ending::rolled_back;
  Result<ProgramOutcome> outcome = reduce(ending, before, bytes_before);
  if (!outcome) return failure(std::move(outcome));
  if (auto wrong = tally(*outcome, program, drawn_.seed, counts_)) violate(wrong->check, wrong->what);
  if (Status agreed = agree_on_violation(); !agreed) return failure(std::move(agreed));
  return ending;
}

/// One forward on all ranks. True when the program is over: all are idle, or some rank will not go on.
Result<bool> ProcessTrial::serve_forward() {
  pause_if_due();
  begin_forward();
  Beat mine;
  mine.forward = next_.value();
  mine.epoch = rank_->is_in_doubt() ? rank_->epoch().value() : rank_->newest_epoch().value();
  mine.is_idle = rank_->is_idle() ? 1 : 0;
  mine.is_in_doubt = rank_->is_in_doubt() ? 1 : 0;
  const Result<std::vector<Beat>> beats = beats_.exchange(
      mine, [this] { rank_->progress(); }, clock_, patience());
  if (!beats) return tl::unexpected<Error>(beats.error());
  check_beats(*beats);
  if (rank_->num_in_flight() > 0) rank_->end_batch();
  next_ = next_.next();
  is_doubtful_ = std::ranges::any_of(*beats, [](const Beat& beat) { return beat.is_in_doubt != 0; });
  return is_doubtful_ || std::ranges::all_of(*beats, [](const Beat& beat) { return beat.is_idle != 0; });
}

/// Waits for admission; a rank in doubt begins nothing.
void ProcessTrial::begin_forward() {
  while (!rank_->is_in_doubt()) {
    if (rank_->take_turn(next_) == CheckedRank::Turn::began) return;
    std::this_thread::yield();
  }
}

void ProcessTrial::check_beats(const std::vector<Beat>& beats) {
  ForwardEpochs epochs;
  for (std::size_t r = 0; r < beats.size(); ++r) {
    if (beats[r].is_in_doubt != 0) continue;
    const std::string mixed = epochs.serve(r, Forward{beats[r].forward}, Epoch{beats[r].epoch});
    if (!mixed.empty()) violate(Check::one_epoch, mixed);
  }
}

/// Ticks of the case are forwards here.
void ProcessTrial::pause_if_due() {
  for (std::size_t i = 0; i < drawn_.faults.size(); ++i) {
    const CaseFault& fault = drawn_.faults[i];
    const bool is_due = fault.kind == FaultKind::pause && fault.rank == root_.rank() && !has_paused_[i];
    if (!is_due || fault.tick > next_.value()) continue;
    has_paused_[i] = true;
    std::this_thread::sleep_for(fault.length);
  }
}

Result<ProgramOutcome> ProcessTrial::reduce(Ending ending, const Struck& before, std::uint64_t bytes_before) {
  const Struck mine = struck() - before;
  std::array<std::int64_t, 5> sums{
      static_cast<std::int64_t>(mine.all), static_cast<std::int64_t>(mine.corrupted_payloads),
      static_cast<std::int64_t>(mine.may_doubt), static_cast<std::int64_t>(bytes_moved() - bytes_before),
      rank_->has_found_corruption() ? 1 : 0};
  if (Status reduced = all_reduce_sum(root_, clock_, {collective_tag, patience()}, sums); !reduced)
    return failure(std::move(reduced));
  ProgramOutcome outcome{.ending = ending, .struck = {}};
  outcome.struck = {static_cast<std::uint64_t>(sums[0]), static_cast<std::uint64_t>(sums[1]),
                    static_cast<std::uint64_t>(sums[2])};
  outcome.bytes_moved = static_cast<std::uint64_t>(sums[3]);
  outcome.found_corruption = sums[4] != 0;
  return outcome;
}

/// The lowest rank that has one speaks for all.
Status ProcessTrial::agree_on_violation() {
  if (!violation_) violation_ = rank_->violation();
  WireViolation mine;
  if (violation_) {
    mine.is_set = 1;
    mine.check = static_cast<std::uint32_t>(violation_->check);
    violation_->what.copy(mine.what.data(), mine.what.size() - 1);
  }
  std::vector<WireViolation> all(static_cast<std::size_t>(root_.num_ranks()));
  const CollectiveOptions options{collective_tag, patience()};
  if (Status gathered = all_gather(root_, clock_, options, std::as_bytes(std::span(&mine, 1)),
                                   std::as_writable_bytes(std::span(all)));
      !gathered)
    return gathered;
  const auto first = std::ranges::find(all, 1U, &WireViolation::is_set);
  if (first != all.end())
    violation_ = Violation{static_cast<Check>(first->check), drawn_.seed, first->what.data()};
  return {};
}

Status ProcessTrial::gather_peak() {
  const std::size_t mine = rank_->staging_peak_bytes();
  std::vector<std::size_t> all(static_cast<std::size_t>(root_.num_ranks()));
  const CollectiveOptions options{collective_tag, patience()};
  Status gathered = all_gather(root_, clock_, options, std::as_bytes(std::span(&mine, 1)),
                               std::as_writable_bytes(std::span(all)));
  counts_.staging_peak_bytes = std::ranges::max(all);
  counts_.staging_budget_bytes = drawn_.engine.staging_budget_bytes;
  return gathered;
}

Struck ProcessTrial::struck() const {
  Struck struck;
  for (std::size_t i = 0; i < drawn_.faults.size(); ++i) {
    if (has_paused_[i] || rank_->has_struck(i)) struck.add(drawn_.faults[i]);
  }
  return struck;
}

}  // namespace

Clock::duration process_patience(Clock::duration deadline) noexcept {
  return 50 * deadline + std::chrono::seconds(10);
}

Result<TrialReport> run_process_trial(const Case& drawn, Transport& root, const Clock& clock) {
  ProcessTrial trial(drawn, root, clock);
  if (Status made = trial.make_rank(); !made) return failure(std::move(made));
  return trial.run();
}

}  // namespace trimtab::verify
