// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "moe/config.hpp"
#include "moe/expert_memory.hpp"
#include "moe/gate_schedule.hpp"
#include "moe/migration_report.hpp"
#include "moe/speedup.hpp"
#include "moe/text/model.hpp"
#include "moe/text/session.hpp"
#include "moe/text/traffic.hpp"
#include "moe/traffic.hpp"
#include "moe/transfer_faults.hpp"
#include "mutant/mutant.hpp"

#include <trimtab/core/clock.hpp>
#include <trimtab/core/result.hpp>
#include <trimtab/core/topology.hpp>
#include <trimtab/plan/planner.hpp>
#include <trimtab/transport/liveness.hpp>
#include <trimtab/transport/transport.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace trimtab::moe {

/// The same service without and with balancing.
enum class ArmId : std::uint8_t { off, on };

/// What befalls a rank on purpose, in a forward of the on arm.
struct RankFault {
  Rank rank;
  std::uint64_t forward = 0;     ///< Of the stream.
  std::function<void()> strike;  ///< On that rank's thread.
  bool ends_rank = false;  ///< After `strike` the rank ends with `cancelled`, as if its process were gone.
};

/// What it takes to go on without ranks that are gone.
struct Survival {
  std::string checkpoint;  ///< Folder for the weights, shared by all; experts that die come from there.
  HeartbeatOptions heartbeat{};
};

/// A real model, and what it is asked.
struct TextService {
  TextModel model;
  TextTraffic traffic;
};

/// What is served, and how it is measured. Equal on every rank.
struct ServiceOptions {
  ModelConfig model;
  Topology topology;
  GateSchedule schedule;
  PlanOptions plan{};
  std::int32_t tokens_per_rank = 0;   ///< Per forward.
  std::uint64_t num_quads = 8;        ///< ABBA quads: off, on, on, off; each arm serves two blocks of a quad.
  std::uint64_t block_forwards = 1;   ///< Forwards of a block; an arm serves 2 * num_quads blocks.
  std::uint64_t rebalance_every = 1;  ///< Forwards of the on arm between two plans.
  std::uint64_t split_every = 0;  ///< Forwards of the on arm between two changes of shares; 0: even shares.
  std::size_t staging_budget_bytes = 0;                 ///< Per rank; 0: room for all slots of all layers.
  std::optional<Clock::duration> stall_budget{};        ///< Of a step; none: as few steps as staging allows.
  Clock::duration deadline = std::chrono::seconds(60);  ///< For every wait of a forward.
  Clock::duration migration_deadline = std::chrono::seconds(60);  ///< For every wait of the engine.
  WeightLayout layout = WeightLayout::dense;                      ///< Of both arms.
  std::vector<TransferFault> faults{};                            ///< Of the on arm's migrations.
  std::optional<Survival> survival{};                             ///< Needs a fault-tolerant transport.
  std::optional<RankFault> rank_fault{};                          ///< Beside survival.
  /// In place of generated weights and tokens; `model` is then the shape of its experts, `schedule` its bias.
  /// Not together with survival.
  std::shared_ptr<const TextService> text{};
  std::optional<Mutant> mutant{};  ///< Breaks the on arm: wrong_scale or one of the engine's.
  std::uint64_t reference_batches =
      4;  ///< Forwards per rank whose whole output is computed again by the reference.

  [[nodiscard]] std::uint64_t forwards() const noexcept { return 2 * num_quads * block_forwards; }
};

/// One block of one arm over all ranks.
struct BlockReport {
  ArmId arm = ArmId::off;
  std::uint64_t first_forward = 0;  ///< Of the stream; the same tokens are served by the other arm's block.
  std::uint64_t num_forwards = 0;
  std::int64_t tokens = 0;  ///< Served in it.
  double seconds =
      0.0;  ///< From before the first forward to after the last work the arm began, slowest rank.
  double imbalance = 1.0;        ///< Mean over (forward, layer).
  std::uint64_t epoch = 0;       ///< At the end.
  std::int64_t slots_moved = 0;  ///< In this block, like the next.
  std::int64_t bytes_moved = 0;
  double stall_ms = 0.0;  ///< Largest over ranks.
};

/// How well the model says what it was asked, by domain.
struct DomainReport {
  std::string name;
  std::int64_t requests = 0;              ///< Done, of each arm.
  std::int64_t bytes = 0;                 ///< Of prompts, of each arm.
  std::array<double, 2> bits_per_byte{};  ///< By arm.
};

/// A request and what was said, by the on arm.
struct TextSample {
  std::size_t domain = 0;
  std::string prompt;
  std::string said;
};

/// What was served of a real model. All ranks together, but for samples and bytes.
struct TextReport {
  std::vector<DomainReport> domains;
  std::array<double, 2> bits_per_byte{};  ///< By arm, of all prompts.
  std::int64_t prefilled = 0;             ///< Bytes of prompts, of each arm.
  std::int64_t decoded = 0;               ///< Bytes that were said and went through the model.
  std::int64_t model_bytes = 0;           ///< Of the weights, once.
  std::int64_t cache_bytes = 0;           ///< Of keys and values, of one arm and rank.
  std::vector<TextSample> samples;        ///< Of this rank: the last of each domain.
};

/// What a death cost. The same on every rank that is left.
struct DeathReport {
  std::vector<Rank> members;           ///< That are left.
  std::uint64_t forward = 0;           ///< Of the stream: the first that was served again.
  double recovery_ms = 0.0;            ///< From noticing it to the end of the next forward; slowest rank.
  std::int64_t experts_lost = 0;       ///< Over all layers: no slot was left of them.
  std::int64_t bytes_recovered = 0;    ///< Read back from the checkpoint.
  std::int64_t tokens_taken_over = 0;  ///< Of the dead rank, served by the others.
};

/// The whole run. The same on every rank.
struct ServiceReport {
  bool outputs_identical = false;                  ///< Off, on and reference, every rank, every bit.
  std::array<double, 2> tokens_per_s{};            ///< By arm: all tokens over all block time.
  std::array<double, 2> tokens_per_s_deviation{};  ///< By arm: standard deviation over blocks.
  std::array<double, 2> imbalance_mean{};          ///< By arm: over (forward, layer).
  Speedup speedup;
  std::int64_t epochs = 0;       ///< Commits.
  std::int64_t migrations = 0;   ///< Programs that were carried out to the end.
  std::int64_t rolled_back = 0;  ///< Steps.
  std::int64_t slots_moved = 0;
  std::int64_t bytes_moved = 0;
  std::int64_t bytes_copied = 0;
  std::int64_t rows_on_moved_slots = 0;  ///< Assignments computed in slots that a commit had filled.
  std::int64_t unchanged_slots_written = 0;
  std::int64_t windows_refused = 0;
  std::int64_t splits = 0;             ///< Changes of shares alone.
  std::int64_t reference_checked = 0;  ///< Batches.
  double record_ms = 0.0;              ///< Largest over ranks, like the next.
  double split_ms = 0.0;
  double plan_ms = 0.0;
  double migrate_ms = 0.0;
  double stall_ms = 0.0;
  std::string
      last_problem;  ///< Why a step was rolled back or a window refused, as this rank knows it; or empty.
  MigrationReport migration;
  std::optional<DeathReport> death;
  ServiceTraffic traffic;
  std::optional<TextReport> text;
  std::vector<BlockReport> blocks;  ///< In the order in which they ran.
};

/// Told about progress on the thread of rank 0.
class ServiceObserver {
 public:
  virtual ~ServiceObserver() = default;
  virtual void on_forward(ArmId arm, std::uint64_t forwards_done, std::uint64_t forwards_total) = 0;
  virtual void on_block(const BlockReport& block) = 0;
  /// After each forward of a real model.
  virtual void on_text(ArmId, const TextSession&) {}
};

/// Runs one rank of the service: both arms over the same stream, in blocks. Collective over `root`, on which
/// it opens its channels. `observer` may be null. @return an error when a peer is missing, an arm's traffic
/// mixes epochs, or a migration ends in doubt. With ServiceOptions::survival the on arm goes on alone after a
/// rank's death, whenever that is once all have begun to serve; a rank that is in the minority is in doubt.
[[nodiscard]] Result<ServiceReport> serve_rank(const ServiceOptions& options, Transport& root,
                                               const Clock& clock, ServiceObserver* observer);

}  // namespace trimtab::moe
