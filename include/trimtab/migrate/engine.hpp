// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/clock.hpp>
#include <trimtab/core/ids.hpp>
#include <trimtab/core/placement.hpp>
#include <trimtab/core/result.hpp>
#include <trimtab/core/topology.hpp>
#include <trimtab/migrate/program.hpp>
#include <trimtab/migrate/table_compiler.hpp>
#include <trimtab/route/table_publisher.hpp>
#include <trimtab/transport/liveness.hpp>
#include <trimtab/transport/transport.hpp>
#include <trimtab/weights/expert_source.hpp>
#include <trimtab/weights/expert_store.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trimtab {

/// States of one rank in one step (docs/design/0002-migration-step.md).
enum class StepState : std::uint8_t {
  idle,        ///< No program.
  proposed,    ///< A program was begun here; not every rank has agreed yet.
  staging,     ///< All agreed; bytes are moving into staging.
  staged,      ///< Voted; only a decision ends the step now if the vote was yes.
  draining,    ///< Commit decided; forwards below F are finishing.
  committing,  ///< Slots and table change. Passed through inside one `advance`: only an observer sees it.
  committed,   ///< Slots and table are new here; displaced bundles wait in staging for the other ranks.
  in_doubt,    ///< Terminal: the decision or an acknowledgement did not come in time, committed bytes did not
               ///< verify, or this rank is in no view any more.
};

[[nodiscard]] std::string_view to_string(StepState state) noexcept;

/// What moves a rank from one state to the next; the pairs that occur are listed in specs/transitions.txt.
enum class StepEvent : std::uint8_t {
  begin,            ///< A program was begun here.
  start,            ///< All ranks agreed.
  no_room,          ///< All agreed, but staging is still quarantined: a no.
  vote_yes,         ///< Everything is staged and verified.
  vote_no,          ///< Staging or preparing the commit failed.
  commit,           ///< Decided.
  abort,            ///< Decided, or implied by the proposal of a later attempt.
  drained,          ///< No batch below F is left.
  published,        ///< Slots and table are new.
  unverified,       ///< Bytes differ after the exchange.
  release,          ///< All acknowledged, or implied by the proposal of a later attempt.
  deadline,         ///< A wait took too long.
  new_view_commit,  ///< The view ended, and with it the step, committed.
  new_view_abort,   ///< The view ended, and the step in hand was not committed anywhere.
  excluded,         ///< The next view is one without this rank.
  no_quorum,        ///< This rank is in a minority that cannot end the view.
  failed,           ///< The channel failed, or what was said contradicts the protocol.
};

[[nodiscard]] std::string_view to_string(StepEvent event) noexcept;

struct EngineOptions {
  std::size_t staging_budget_bytes = 0;                 ///< Per rank; allocated at construction (M8).
  Clock::duration deadline = std::chrono::seconds(10);  ///< For each wait of the protocol (M9).
  /// For each wait after the vote, when a step can not be given up for free any more; zero: `deadline`.
  /// Longer than a forward may take: a step waits for those before it.
  Clock::duration decided_deadline{};
  std::uint64_t hold_forwards =
      2;  ///< How many forwards a rank may still begin between its vote and the decision.
  std::size_t verify_sample = 1;  ///< Slots re-verified after each commit, per rank.
  /// Which ranks are there; borrowed. Null: the ranks are fixed, and one that dies ends the service. Else all
  /// ranks have one of their own, and the survivors of a death go on in a new view (at most 1024 ranks).
  const Liveness* liveness = nullptr;
  /// Where experts come from whose last slot died with its rank; borrowed. All ranks have one, or none has.
  ExpertSource* source = nullptr;
};

/// The ranks that serve. A new view follows when one of them dies, falls silent, or leaves a step undecided.
struct View {
  std::uint32_t number = 0;
  std::vector<Rank> members;  ///< Ascending; the lowest coordinates.
  Forward resume;             ///< Its first forward: every member has finished all below it.
  /// Experts that no member holds: as long as there are any, every forward is held. A program that gives them
  /// slots again reads them from EngineOptions::source.
  std::vector<LayerExpert> lost;
  /// Those of them that a commit displaced when the view before ended: members have kept their bundles, and
  /// programs move them from there.
  std::vector<KeptExpert> kept;
};

/// May the caller begin the forward it asked for?
enum class Admission : std::uint8_t {
  go,
  hold,   ///< Ask again; beginning it now could see a mixture of two epochs (M2).
  renew,  ///< There is a new view. Its forwards begin at `view().resume`, under its own table: go back to
          ///< there.
};

/// What one rank's engine has done. Bytes and slots count what arrived here.
struct EngineCounters {
  std::uint64_t steps_committed = 0;
  std::uint64_t steps_rolled_back = 0;
  std::uint64_t slots_moved = 0;
  std::uint64_t bytes_moved = 0;
  std::uint64_t bytes_copied = 0;
  std::uint64_t bytes_recovered = 0;   ///< From EngineOptions::source.
  std::uint64_t control_messages = 0;  ///< Sent to other ranks. A step takes seven to or from each member.
  Clock::duration busy{};              ///< Inside `begin` and `advance` while a program was running.
  Clock::duration
      stall{};  ///< From the first `hold` for a forward (or the start of the commit) to the next `go`.
};

/// Where to go, and on what terms.
struct MigrationGoal {
  Placement to;
  /// How long a step may stop a rank. The coordinator turns it into bytes by the rate at which it has
  /// exchanged slots so far and proposes these with the program, so that all ranks cut it alike; nothing is
  /// smaller than one slot per rank. Not set: as few steps as staging allows.
  std::optional<Clock::duration> stall_budget = std::nullopt;
  std::shared_ptr<const TableCompiler> tables = nullptr;  ///< Of each step's table; null: even shares.
};

/// Told about commits and state changes on this rank, on the thread of the call that makes them.
class EngineObserver {
 public:
  virtual ~EngineObserver() = default;
  /// All ranks have agreed on `step`, and its bytes begin to move; in the same order on every rank.
  virtual void on_begin(const Step& /*step*/) {}
  /// Slots and table of this rank are at `epoch` now.
  virtual void on_commit(const Step& step, Epoch epoch) = 0;
  /// This rank serves in `view` from now on, under a table without the slots of ranks that are not in it.
  virtual void on_view(const View& /*view*/) {}
  /// `health().state` is `after` now. Must not call the engine.
  virtual void on_transition(StepState /*before*/, StepEvent /*event*/, StepState /*after*/) {}
};

/// How the engine is, for metrics and people.
struct EngineHealth {
  StepState state = StepState::idle;
  Clock::duration state_age{};  ///< How long it has been in this state.
  Epoch epoch;                  ///< In service here.
  std::optional<Clock::time_point> last_commit;
  std::uint64_t failures = 0;         ///< Steps that were rolled back, and one more in doubt.
  std::optional<Error> last_failure;  ///< Why the last rolled back or doubtful step ended so.
  std::size_t staging_budget_bytes = 0;
  std::size_t staging_used_bytes = 0;  ///< By the step in hand, and by quarantined receives of earlier ones.
  std::size_t staging_peak_bytes = 0;  ///< The most that was used at once.
  std::size_t kept_bytes = 0;          ///< Beside staging: bundles of View::kept that this rank has.
  std::size_t workspace_bytes = 0;     ///< Beside staging: of layers whose slots are not addressable.
  std::size_t transport_buffer_bytes = 0;  ///< Beside staging: what the channel holds itself.
};

/// Runs programs transactionally over a set of ranks: agree, stage, vote, drain, commit, or roll back
/// with every slot as before.
///
/// With EngineOptions::liveness it survives deaths: a step whose coordinator or member is gone is ended by a
/// take-over, alike on all survivors, which go on in a new view. A rank that is in no view stops.
///
/// One per rank, on the rank's forward thread; nothing happens but inside its calls. All ranks construct it
/// with equal options, topology and placement, and begin the same programs or goals in the same order.
/// Ownership: owns its channel (nothing else may use it) and its staging; borrows store, publisher and clock.
/// Errors: a failed step is not an error of `advance`: it is rolled back, counted and shown in `health`, and
/// the old epoch serves on. `advance` fails only when this rank can no longer be sure what the others serve
/// (state in_doubt); the rank must then stop serving.
class Engine {
 public:
  /// @return `invalid_argument` when store, topology, placement and channel do not fit together.
  static Result<std::unique_ptr<Engine>> make(const EngineOptions& options,
                                              std::unique_ptr<Transport> channel, ExpertStore& store,
                                              TablePublisher& publisher, Topology topology,
                                              Placement placement, const Clock& clock);
  virtual ~Engine() = default;

  /// Takes a program that starts from the epoch in service. Does not block and moves nothing yet.
  /// @return no effect and: `invalid_argument` while busy, for an empty program, or when it needs more
  /// staging than the budget;
  ///         `version_mismatch` when it starts from another epoch; `closed` when in doubt.
  Status begin(Program program) { return begin(std::move(program), nullptr); }
  /// The same; `tables` makes the table of each step. Null: even shares.
  virtual Status begin(Program program, std::shared_ptr<const TableCompiler> tables) = 0;
  /// Builds the program that leads from the placement in service to the goal, and takes it likewise.
  /// @return false, and no effect, when nothing changes; the errors of `begin`, `build_program` and
  /// `stall_budget`; `unavailable` for a stall budget when the clock stands still, so that no rate is known.
  virtual Result<bool> begin_toward(MigrationGoal goal) = 0;

  /// Drives the protocol for about `budget`. To be called between forwards, before each one, idle or not.
  /// @param next  the forward the caller wants to begin, and begins after `go`; its part of every forward
  /// below it is done or holds a
  ///              lease of `publisher`. Never smaller than in an earlier call, but for what `renew` says;
  ///              larger numbers skip forwards.
  virtual Result<Admission> advance(Forward next, Clock::duration budget) = 0;

  /// The part of `advance` that touches neither slots nor table: messages, staging, deadlines. To be called
  /// while a forward waits for other ranks: one of them may be held by this step, and the decision it waits
  /// for may have to come from here.
  /// @return `cancelled` when the view is ending: the forward will not be finished by all, so its caller
  /// gives it up, drops its leases and counts, and calls `advance` until that says `renew`.
  virtual Status progress(Clock::duration budget) = 0;

  /// All forwards below `finished` are done here. Needed only by callers that begin a forward before the one
  /// before it is done: else `advance` knows.
  virtual void note_finished(Forward finished) = 0;

  /// `forward` has waited here for a part of `peer`, a member that seems alive, longer than it should; it
  /// goes on waiting, until the part comes or `progress` says `cancelled`. The view ends: a peer that is
  /// stuck does not answer and is left out; where two members wait for each other their link is cut, and one
  /// of them is left out. To be said well before EngineOptions::decided_deadline. No effect where the ranks
  /// are fixed.
  virtual void note_unheard(Forward forward, Rank peer) = 0;

  [[nodiscard]] virtual const View& view() const noexcept = 0;
  /// With the ranks of the view alive, and no others.
  [[nodiscard]] virtual const Topology& topology() const noexcept = 0;

  [[nodiscard]] virtual bool is_idle() const noexcept = 0;
  /// The placement in service on this rank.
  [[nodiscard]] virtual const Placement& placement() const noexcept = 0;
  /// The placement of an epoch that was in service here, or null when it was forgotten or never was.
  [[nodiscard]] virtual const Placement* placement_of(Epoch epoch) const noexcept = 0;
  /// Frees the placements of epochs below `oldest`, but for the one in service.
  virtual void forget_before(Epoch oldest) = 0;
  /// Null to remove. Borrowed.
  virtual void set_observer(EngineObserver* observer) noexcept = 0;

  [[nodiscard]] virtual EngineHealth health() const = 0;
  [[nodiscard]] virtual const EngineCounters& counters() const noexcept = 0;
};

}  // namespace trimtab
