// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/clock.hpp>
#include <trimtab/core/ids.hpp>
#include <trimtab/core/result.hpp>
#include <trimtab/core/topology.hpp>
#include <trimtab/record/recorder.hpp>
#include <trimtab/route/router.hpp>
#include <trimtab/route/routing_table.hpp>
#include <trimtab/transport/transport.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "moe/all_to_all.hpp"
#include "moe/around_experts.hpp"
#include "moe/config.hpp"
#include "moe/dispatch.hpp"
#include "moe/expert_memory.hpp"
#include "moe/expert_stage.hpp"
#include "moe/forward_runner.hpp"
#include "moe/gate.hpp"
#include "moe/gate_stage.hpp"

namespace trimtab::moe {

/// Tags the executor uses on its channel in view 0; each later view takes the next two.
inline constexpr Tag rows_tag{1};
inline constexpr Tag answers_tag{2};

struct ExecutorOptions {
  ModelConfig config;
  std::size_t max_tokens = 0;                           ///< Per forward and rank; the same on every rank.
  Clock::duration deadline = std::chrono::seconds(30);  ///< For each exchange of messages.
  RecordContext context{};                              ///< What the recorder counts into.
  bool survives_deaths = false;  ///< After an error messages are given up, and the channel stays open.
};

/// What an executor works with. All borrowed; all must outlive it.
struct ExecutorParts {
  Transport& channel;
  const Topology& topology;
  const ReplicatedWeights& weights;
  const ExpertMemory& memory;    ///< Written by others only while no forward runs here.
  Recorder* recorder = nullptr;  ///< Null: nothing is counted.
  const Clock& clock;
  std::function<Status()> while_waiting =
      {};  ///< Called while a forward waits for other ranks; an error ends the forward.
  /// Told of each rank whose part of the forward has not come within half of the deadline.
  std::function<void(Forward, Rank)> on_unheard = {};
  AroundExperts* around = nullptr;  ///< Null: a layer is its experts.
};

/// Where this rank's time went, summed over forwards. What is in none of them is norm, gate and combine.
struct ExecutorTimes {
  Clock::duration forward{};   ///< All of it.
  Clock::duration experts{};   ///< Grouping, GEMMs, activation: what follows the rank's load.
  Clock::duration exchange{};  ///< In the two all-to-alls, waiting included.
  Clock::duration record{};    ///< In the recorder.
};

/// @return `invalid_argument` when config, topology, channel and memory do not fit together.
[[nodiscard]] Status check_parts(const ExecutorOptions& options, const ExecutorParts& parts);
/// @return `invalid_argument` with value and limit for what does not fit a forward of these options.
[[nodiscard]] Status check_input(const ExecutorOptions& options, std::span<const float> states,
                                 std::span<const float> bias, const RoutingTable& table);
/// What follows a forward that is done, or not: its counts are kept or dropped, and after an error its
/// messages are given up or the channel is closed. @return `done`.
Status end_forward(Status done, const ExecutorOptions& options, const ExecutorParts& parts,
                   AllToAll& all_to_all);

/// One rank of the expert-parallel model: norm, gate and top-k on its own tokens, all-to-all to the slots,
/// the experts in its slots on everyone's tokens, all-to-all back, combine in order of choice, residual.
///
/// A token's output depends on the token, the weights and the bias alone: not on the batch it is in, the
/// replica that serves it or the number of ranks. One per rank and arm, on the rank's thread, which must have
/// called `use_one_gemm_thread`. All ranks run the same forwards in the same order, with or without tokens of
/// their own.
class RankExecutor final : public ForwardRunner {
 public:
  /// @return the error of `check_parts`.
  static Result<std::unique_ptr<RankExecutor>> make(const ExecutorOptions& options,
                                                    const ExecutorParts& parts);

  /// Runs this rank's tokens through all layers, in place, and other ranks' tokens through this rank's
  /// experts.
  /// @param states  [tokens][hidden]; may be empty
  /// @param bias    [layers][experts]
  /// @param table   leased by the caller for the whole call
  /// @return `invalid_argument` for sizes that do not fit, before anything is sent; `version_mismatch` naming
  /// both
  ///         sides when a peer is at another epoch, split, forward or layer; `timeout` naming the rank waited
  ///         for; `corrupt`; or an error of the channel or the recorder. After any of the latter the channel
  ///         is closed, unless ExecutorOptions::survives_deaths, `states` is unspecified and the recorder has
  ///         dropped the forward.
  Status forward(Forward number, std::span<float> states, std::span<const float> bias,
                 const RoutingTable& table) override;

  /// Goes on with the ranks that are alive in the topology now. What is under way from views before is not
  /// met any more.
  void enter_view(std::uint32_t number) noexcept override;

  /// Whether what forwards before have given up is over; until then there can be no other.
  /// @return `timeout` when that takes longer than the deadline.
  Result<bool> has_let_go() override { return all_to_all_.has_let_go(); }

  /// Rows that each local slot processed in the last forward.
  [[nodiscard]] std::span<const std::int64_t> rows(LayerId layer) const noexcept override;
  [[nodiscard]] const ExecutorTimes& times() const noexcept override { return times_; }

 private:
  RankExecutor(const ExecutorOptions& options, const ExecutorParts& parts);

  Status run_layers(Forward number, std::span<float> states, std::span<const float> bias,
                    const RoutingTable& table);
  Status run_layer(const BatchKey& key, std::span<float> states, std::span<const float> bias,
                   const RoutingTable& table);
  Status exchange_and_compute(const BatchKey& key, std::span<const SlotId> slots);
  Status record(const BatchKey& key, std::span<const SlotId> slots);

  ExecutorOptions options_;
  ExecutorParts parts_;
  Router router_;
  GateStage gate_;
  Outbox outbox_;
  Inbox inbox_;
  AllToAll all_to_all_;
  Forward number_;  ///< The one that runs.
  Tag rows_tag_ = rows_tag;
  Tag answers_tag_ = answers_tag;
  ExpertStage experts_;
  std::vector<SlotId> slots_;       ///< [tokens][top_k]
  std::vector<std::int64_t> rows_;  ///< [layers][local slots]
  ExecutorTimes times_;
};

}  // namespace trimtab::moe
