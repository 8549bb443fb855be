// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "verify/checked_rank.hpp"
#include "verify/forward_board.hpp"
#include "verify/random.hpp"
#include "verify/trial_report.hpp"

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>

namespace trimtab::verify {

/// A rank of a case with deaths, as a service would drive it: forwards that are collective in their view, and
/// one program after another, until it is done or has to stop. In each view the programs start anew, by a
/// list that the view's number and the case decide, so that all members begin the same ones. One thread.
class ServingRank {
 public:
  struct Setup {
    CheckedRank::Setup checked;        ///< With liveness.
    ForwardBoard& board;               ///< The same for all ranks.
    Clock::duration patience;          ///< Longest that it may neither serve nor change its state.
    Clock::duration forward_deadline;  ///< Longest that a forward waits for a rank that seems alive.
  };

  [[nodiscard]] static Result<std::unique_ptr<ServingRank>> make(const Setup& setup,
                                                                 std::unique_ptr<Transport> channel);

  /// One turn.
  void drive();

  /// In doubt, excluded, or in a minority: it serves no more.
  [[nodiscard]] bool is_out() const noexcept { return checked_->is_in_doubt(); }
  /// Nothing is left to do in this view.
  [[nodiscard]] bool is_done() const noexcept;
  /// No program can bring the lost experts back.
  [[nodiscard]] bool is_held() const { return !engine().view().lost.empty(); }
  /// All batches end, and their counts are compared.
  void finish();

  [[nodiscard]] const Engine& engine() const noexcept { return checked_->engine(); }
  [[nodiscard]] const CheckedRank& checked() const noexcept { return *checked_; }
  [[nodiscard]] CheckedRank& checked() noexcept { return *checked_; }
  /// The forward that it begins next.
  [[nodiscard]] Forward next() const noexcept { return next_; }
  /// What happened as this rank saw it; without bytes and faults.
  [[nodiscard]] TrialCounts counts() const;
  [[nodiscard]] const std::optional<Violation>& violation() const noexcept {
    return violation_ ? violation_ : checked_->violation();
  }

 private:
  struct Batch {
    Forward forward;
    std::int32_t turns_left = 0;
    Clock::time_point begun;
  };

  explicit ServingRank(const Setup& setup);

  void end_batches();
  [[nodiscard]] std::vector<Rank> unheard_of(Forward forward) const;
  void take_turn();
  void on_began();
  void on_renewed();
  void note_program_end();
  void begin_program();
  [[nodiscard]] std::optional<Placement> goal() const;
  [[nodiscard]] std::size_t num_programs() const noexcept;
  void check_patience();
  void violate(Check check, const std::string& what);

  Setup setup_;
  Random random_;
  std::unique_ptr<CheckedRank> checked_;
  Forward next_;
  std::deque<Batch> in_flight_;
  std::size_t position_ = 0;  ///< In the list of this view's programs.
  std::int32_t turns_to_begin_ = 0;
  std::optional<Program> program_;  ///< Begun and not yet over.
  TrialCounts ended_;               ///< Programs that are over.
  Clock::time_point moved_at_;
  StepState last_state_ = StepState::idle;
  std::optional<Violation> violation_;
};

}  // namespace trimtab::verify
