// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mutant/mutant.hpp"
#include "verify/assignment_counts.hpp"
#include "verify/case.hpp"
#include "verify/layout_weights.hpp"
#include "verify/slot_contents.hpp"
#include "verify/violation.hpp"

#include <trimtab/migrate/engine.hpp>
#include <trimtab/route/table_publisher.hpp>
#include <trimtab/transport/faulty.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace trimtab::verify {

/// One rank of a case: weights, table, engine, faults on its channel and batches in flight; and what must
/// hold there whenever the engine has been called. Says the first violation. One thread.
class CheckedRank final : public EngineObserver {
 public:
  struct Setup {
    const Case& drawn;
    Rank rank;
    const Clock& clock;
    std::optional<Mutant> mutant = std::nullopt;
    Story story = {};
    const Liveness* liveness = nullptr;  ///< Where ranks die.
    ExpertSource* source = nullptr;
    /// Told of each change of state, first of all; so that the rank can die with it.
    std::function<void()> at_transition = {};
  };

  /// Takes the channel of `setup.rank`. @return the error of Engine::make.
  [[nodiscard]] static Result<std::unique_ptr<CheckedRank>> make(const Setup& setup,
                                                                 std::unique_ptr<Transport> channel);
  ~CheckedRank() override = default;
  CheckedRank(const CheckedRank&) = delete;
  CheckedRank& operator=(const CheckedRank&) = delete;

  /// `program` must outlive its end.
  void begin(const Program& program);

  enum class Turn : std::uint8_t {
    began,    ///< The forward is in flight here.
    held,     ///< By the step.
    full,     ///< As many batches as there may be are in flight.
    renewed,  ///< There is a new view, from whose first forward on it goes on.
    stopped,
  };
  /// Calls the engine once and begins forward `next` if that is admitted.
  Turn take_turn(Forward next);
  /// The part that may run while nothing can begin here. Gives all batches up when the view is ending.
  void progress();
  /// The oldest batch waits for `peer` in vain.
  void note_unheard(Rank peer) { engine_->note_unheard(lanes_[oldest_lane_]->forward, peer); }
  /// Ends the oldest batch, which must be in flight.
  void end_batch() { end_batch(BatchEnd::finished); }

  [[nodiscard]] std::size_t num_in_flight() const noexcept { return num_in_flight_; }
  /// Epoch of the newest batch. Precondition: one is in flight.
  [[nodiscard]] Epoch newest_epoch() const { return newest().identity().epoch; }
  /// Whether all steps of the last program begun were committed here.
  [[nodiscard]] bool has_committed_all() const noexcept { return num_steps_left_ == 0; }
  /// Steps that a new view ended after this rank had said yes.
  [[nodiscard]] std::uint64_t num_resolved() const noexcept { return num_resolved_; }

  /// So that a test can put a wrong byte there.
  [[nodiscard]] LayoutWeights& weights() noexcept { return weights_; }

  [[nodiscard]] bool is_in_doubt() const noexcept { return is_in_doubt_; }
  [[nodiscard]] bool is_idle() const noexcept { return engine_->is_idle(); }
  [[nodiscard]] const Engine& engine() const noexcept { return *engine_; }
  /// Why.
  [[nodiscard]] const std::string& doubt() const noexcept { return doubt_; }
  /// Of the last commit.
  [[nodiscard]] Epoch epoch() const noexcept { return epoch_; }
  /// Whether a step of the last program begun was rolled back here for a checksum.
  [[nodiscard]] bool has_found_corruption() const noexcept { return has_found_corruption_; }
  /// Most staging in use after any call.
  [[nodiscard]] std::size_t staging_peak_bytes() const { return engine_->health().staging_peak_bytes; }

  /// Whether the i-th fault of the case, if it strikes here, has struck.
  [[nodiscard]] bool has_struck(std::size_t fault) const;
  /// What is held back by faults arrives now.
  void release_delayed() { script_->release_delayed(); }

  /// Compares everything at the end of a case, and folds the counts.
  void check_all();
  /// The first violation, if any.
  [[nodiscard]] const std::optional<Violation>& violation() const noexcept { return violation_; }

  void on_commit(const Step& step, Epoch epoch) override;
  void on_view(const View& view) override;
  void on_transition(StepState before, StepEvent event, StepState after) override;

 private:
  struct Lane {
    explicit Lane(TablePublisher& publisher) : reader(publisher.make_reader()) {}
    TableReader reader;
    std::optional<TableLease> lease;
    Forward forward;
  };

  CheckedRank(const Setup& setup, RoutingTable table);

  [[nodiscard]] std::unique_ptr<Transport> with_faults(std::unique_ptr<Transport> channel);
  [[nodiscard]] const RoutingTable& newest() const;
  enum class BatchEnd : std::uint8_t { finished, given_up };
  void end_batch(BatchEnd end);
  void begin_batch(Forward forward);
  /// A slot of this rank that a table names.
  struct Named {
    LayerId layer;
    SlotId slot;
    ExpertId expert;
  };

  void name_slots(const RoutingTable& table);
  void check_served(const RoutingTable& table, Forward forward, std::string_view when);
  void check_alive(const RoutingTable& table);
  void route(const RoutingTable& table);
  void give_up_batches();
  void check_after_call();
  void check_staging();
  void check_bytes(Check check, std::string_view when);
  void stop(const Error& error);
  void violate(Check check, const std::string& what);
  [[nodiscard]] bool is_named_by_last_step(const Difference& difference) const;

  Setup setup_;
  LayoutWeights weights_;                     ///< Whose addresses batches have captured.
  std::optional<LayoutWeights> replacement_;  ///< What the engine writes instead, with Mutant::new_storage.
  std::uint64_t fingerprint_;
  TablePublisher publisher_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::size_t oldest_lane_ = 0;
  std::size_t num_in_flight_ = 0;
  std::vector<Named> named_;  ///< By the table whose fingerprint this is.
  std::optional<std::uint64_t> named_by_;
  AssignmentCounts counts_;
  std::vector<std::size_t> scripted_;  ///< Faults of the case, as the script counts them.
  std::shared_ptr<FaultScript> script_;
  std::unique_ptr<Engine> engine_;

  SlotContents contents_;  ///< What must be in the slots now.
  Epoch epoch_;
  const Program* program_ = nullptr;  ///< Begun and not yet over.
  const Step* last_step_ = nullptr;
  bool has_committed_ = false;    ///< In the present call.
  bool has_rolled_back_ = false;  ///< In the present call.
  bool has_found_corruption_ = false;
  bool has_voted_yes_ = false;
  std::size_t num_steps_left_ = 0;
  std::uint64_t num_resolved_ = 0;
  bool is_in_doubt_ = false;
  std::string doubt_;
  std::optional<Violation> violation_;
};

}  // namespace trimtab::verify
