// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "migrate/control.hpp"
#include "migrate/coordinator.hpp"
#include "migrate/goal_builder.hpp"
#include "migrate/late_messages.hpp"
#include "migrate/placement_history.hpp"
#include "migrate/stage_run.hpp"
#include "migrate/staged_runs.hpp"
#include "migrate/take_over.hpp"

#include <trimtab/migrate/engine.hpp>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

namespace trimtab {

/// The member's side of the protocol, and the coordinator's on the lowest rank.
///
/// What is protected are the places where an engine can be wrong for good: src/mutant breaks them one by one
/// to show that `trimtab verify` notices. Nothing else overrides them.
class StepEngine : public Engine {
 public:
  StepEngine(const EngineOptions& options, std::unique_ptr<Transport> channel, ExpertStore& store,
             TablePublisher& publisher, Topology topology, Placement placement, const Clock& clock);
  ~StepEngine() override;
  StepEngine(const StepEngine&) = delete;
  StepEngine& operator=(const StepEngine&) = delete;

  /// Call once before anything else.
  Status start();

  using Engine::begin;
  Status begin(Program program, std::shared_ptr<const TableCompiler> tables) override;
  Result<bool> begin_toward(MigrationGoal goal) override;
  Result<Admission> advance(Forward next, Clock::duration budget) override;
  Status progress(Clock::duration budget) override;
  void note_finished(Forward finished) override;
  void note_unheard(Forward forward, Rank peer) override;

  [[nodiscard]] const View& view() const noexcept override { return view_; }
  [[nodiscard]] const Topology& topology() const noexcept override { return topology_; }
  [[nodiscard]] bool is_idle() const noexcept override { return state_ == StepState::idle; }
  [[nodiscard]] const Placement& placement() const noexcept override { return history_.placement(); }
  [[nodiscard]] const Placement* placement_of(Epoch epoch) const noexcept override {
    return history_.find(epoch);
  }
  void forget_before(Epoch oldest) override { history_.forget_before(oldest); }
  void set_observer(EngineObserver* observer) noexcept override { observer_ = observer; }
  [[nodiscard]] EngineHealth health() const override;
  [[nodiscard]] const EngineCounters& counters() const noexcept override { return counters_; }

 protected:
  virtual std::unique_ptr<StageRun> make_run(const StageRun::Context& context, std::span<std::byte> staging);
  virtual Status on_message(const Message& message);
  /// All that can be done, and can fail, before the vote instead of inside the stall.
  virtual Status prepare_commit();
  /// Whether no batch below F is left on this rank. Precondition: draining.
  [[nodiscard]] virtual bool is_drained(Forward next) const;
  [[nodiscard]] virtual Admission admit(Forward next);
  virtual Status publish(RoutingTable table);
  virtual void roll_back(Error why, StepEvent event);

  [[nodiscard]] Epoch epoch() const noexcept { return history_.epoch(); }
  [[nodiscard]] const Step& step() const { return program_->steps[step_index_]; }
  [[nodiscard]] bool is_draining() const noexcept { return state_ == StepState::draining; }
  /// F of the decision. Precondition: is_draining.
  [[nodiscard]] Forward commit_forward() const noexcept { return commit_forward_; }
  /// Precondition: is_draining.
  [[nodiscard]] const std::optional<RoutingTable>& next_table() const noexcept { return next_table_; }
  [[nodiscard]] TablePublisher& publisher() noexcept { return publisher_; }

 private:
  class BusyTime;

  [[nodiscard]] bool owes_decision() const noexcept { return state_ == StepState::staged && has_voted_yes_; }
  [[nodiscard]] Status check_ready() const;
  [[nodiscard]] Status check_program(const Program& program) const;
  void estimate_copy_rate();
  void take(Program program, std::shared_ptr<const TableCompiler> tables);

  Status drive(Clock::duration budget);
  Result<bool> pump(Clock::time_point until);
  Status propose();
  Result<bool> receive_messages();
  Status on_proposal(const Message& message);
  Status end_overtaken(std::uint64_t by_attempt);
  Status answer_proposal();
  Status cut_as_proposed();
  Status on_start();
  Result<bool> stage(Clock::time_point until);
  Status vote(Errc reason, StepEvent event);
  Status on_decision(const Message& message);
  Status commit(StepEvent event);
  Status acknowledge() { return send(MessageKind::acknowledgement, true, Errc::ok, 0); }
  void count_commit();
  Status on_release();
  Status check_deadline();
  [[nodiscard]] bool may_roll_back_alone() const noexcept;

  [[nodiscard]] bool is_view_ending() const noexcept { return take_over_ && take_over_->is_under_way(); }
  [[nodiscard]] Standing standing() const;
  Status watch_view();
  Status enter_view();
  Status end_by_commit(std::uint64_t attempt);
  Status end_by_abort();
  Status publish_masked();
  void enter(StepState state, StepEvent event);
  void begin_step(StepEvent event);
  Status fail_in_doubt(Error why, StepEvent event = StepEvent::failed);
  Status send(MessageKind kind, bool yes, Errc reason, std::uint64_t forward);
  [[nodiscard]] std::vector<Rank> senders_to_here() const;
  [[nodiscard]] Tag payload_tag() const;
  [[nodiscard]] Error step_error(Errc code, std::string_view what) const;

  EngineOptions options_;
  const Clock& clock_;
  ExpertStore& store_;
  TablePublisher& publisher_;
  Topology topology_;
  std::unique_ptr<Transport> channel_;
  ControlChannel control_;
  Coordinator coordinator_;
  std::optional<TakeOver> take_over_;  ///< None: the ranks are fixed.
  View view_;
  EngineObserver* observer_ = nullptr;

  GoalBuilder builder_;
  PlacementHistory history_;
  std::optional<Program> program_;
  std::optional<MigrationGoal> goal_;                      ///< Of the program in hand, if it was built here.
  std::uint64_t stall_budget_bytes_ = Message::no_budget;  ///< That it was built with.
  std::shared_ptr<const TableCompiler> tables_;            ///< Of the program in hand; null: even shares.
  std::size_t step_index_ = 0;
  StepState state_ = StepState::idle;
  Clock::time_point since_;          ///< In this state.
  Clock::time_point until_;          ///< Deadline of the present wait.
  std::optional<Message> proposal_;  ///< Of the step in hand, or one that came before `begin`.
  std::uint64_t newest_attempt_ = 0;
  StagedRuns runs_;
  LateMessages late_;
  std::optional<Placement> next_placement_;  ///< After the step; set before a yes.
  std::optional<RoutingTable> next_table_;
  bool has_answered_ = false;  ///< The proposal in hand.
  bool has_voted_yes_ = false;
  std::optional<Error> cause_;  ///< Why this rank votes no.
  Forward first_unbegun_;       ///< As far as `advance` was told.
  Forward finished_;            ///< All below are done here.
  Unheard unheard_;             ///< Of a forward that is not done here.
  Forward hold_;                ///< First forward not to begin undecided.
  Forward commit_forward_;      ///< F of the decision.
  std::optional<Clock::time_point> stalled_since_;

  std::optional<Clock::time_point> last_commit_;
  std::optional<Error> last_failure_;
  EngineCounters counters_;
};

/// What Engine::make promises of its arguments.
[[nodiscard]] Status check_parts(const Transport& channel, const ExpertStore& store, const Topology& topology,
                                 const Placement& placement);

/// Engine::make for an engine of `Kind`.
template <class Kind>
Result<std::unique_ptr<Engine>> make_step_engine(const EngineOptions& options,
                                                 std::unique_ptr<Transport> channel, ExpertStore& store,
                                                 TablePublisher& publisher, Topology topology,
                                                 Placement placement, const Clock& clock) {
  if (Status fit = check_parts(*channel, store, topology, placement); !fit) return failure(std::move(fit));
  auto engine = std::make_unique<Kind>(options, std::move(channel), store, publisher, std::move(topology),
                                       std::move(placement), clock);
  if (Status started = engine->start(); !started) return failure(std::move(started));
  return std::unique_ptr<Engine>(std::move(engine));
}

}  // namespace trimtab
