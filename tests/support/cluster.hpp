// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "verify/virtual_clock.hpp"

#include <trimtab/core/placement.hpp>
#include <trimtab/core/topology.hpp>
#include <trimtab/migrate/engine.hpp>
#include <trimtab/migrate/program.hpp>
#include <trimtab/route/table_publisher.hpp>
#include <trimtab/transport/liveness.hpp>
#include <trimtab/transport/transport.hpp>
#include <trimtab/weights/expert_store.hpp>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace trimtab::test {

using verify::VirtualClock;

/// One rank's slots of a W8A8 bundle (six tensors) in memory with guard bytes around and between all slots.
class GuardedWeights {
 public:
  GuardedWeights(std::int32_t num_layers, IdRange<SlotId> slots);

  [[nodiscard]] ExpertStore& store() noexcept { return store_; }
  /// Writes every slot's expert.
  void fill(const Placement& placement);
  /// First deviation of slots and guards from `placement`, or "".
  [[nodiscard]] std::string find_difference(const Placement& placement) const;
  /// All bytes, guards included.
  [[nodiscard]] std::vector<std::byte> snapshot() const { return memory_; }
  [[nodiscard]] const std::byte* base() const noexcept { return memory_.data(); }

 private:
  std::vector<std::byte> memory_;
  ExpertStore store_;
};

/// Ranks of an in-process service without its forwards, all driven by one thread on a virtual clock: every
/// interleaving is repeatable.
class Cluster {
 public:
  /// Wraps a rank's migration channel, to put faults in.
  using Wrap = std::function<std::unique_ptr<Transport>(Rank, std::unique_ptr<Transport>)>;
  /// A rank's own EngineOptions::source.
  using SourceOf = std::function<ExpertSource*(Rank)>;

  /// With `heartbeat` it survives deaths. Without `source_of` all ranks have the options' source.
  Cluster(Topology topology, const Placement& placement, EngineOptions options, const Wrap& wrap = {},
          const std::optional<HeartbeatOptions>& heartbeat = std::nullopt, const SourceOf& source_of = {});

  [[nodiscard]] Program make_program(const Placement& to) const;
  /// Begins the program that leads to `to` on every rank.
  void begin(const Placement& to);
  /// One `advance` on each rank that is between forwards, in rank order; admitted ranks begin the forward
  /// under a lease. A forward is collective: it ends once every rank of its view that is not in doubt has
  /// begun it there. One that its view does not finish is given up.
  void tick();
  /// The beginning of a tick: drives the first `num_ranks` ranks, and ends no forward.
  void begin_tick(std::size_t num_ranks);
  /// The rank does nothing more, and its channels close.
  void kill(std::size_t rank);
  /// The rank does nothing until it is resumed; what is sent to it waits.
  void stop(std::size_t rank) { ranks_[rank]->is_stopped = true; }
  void resume(std::size_t rank) { ranks_[rank]->is_stopped = false; }
  [[nodiscard]] bool serves(std::size_t rank) const {
    return !ranks_[rank]->has_left && ranks_[rank]->engine;
  }
  /// The forward that the rank begins next, or has begun.
  [[nodiscard]] Forward next(std::size_t rank) const { return ranks_[rank]->next; }
  /// Ticks until all that serve are idle, at most `max_ticks` times, letting `per_tick` pass on the clock
  /// each time. False when they are not.
  bool run_until_idle(Clock::duration per_tick = {}, int max_ticks = 1000);

  [[nodiscard]] std::size_t num_ranks() const noexcept { return ranks_.size(); }
  [[nodiscard]] Engine& engine(std::size_t rank) noexcept { return *ranks_[rank]->engine; }
  [[nodiscard]] TablePublisher& publisher(std::size_t rank) noexcept { return ranks_[rank]->publisher; }
  [[nodiscard]] GuardedWeights& weights(std::size_t rank) noexcept { return ranks_[rank]->weights; }
  [[nodiscard]] VirtualClock& clock() noexcept { return clock_; }
  [[nodiscard]] const Topology& topology() const noexcept { return topology_; }
  /// First deviation of any rank's slots and guards from `placement`, or "".
  [[nodiscard]] std::string find_difference(const Placement& placement) const;
  /// Epoch under which each rank served each forward, in order of forwards: [rank][forward].
  [[nodiscard]] const std::vector<std::vector<Epoch>>& served() const noexcept { return served_; }
  /// Errors that `advance` returned, by rank.
  [[nodiscard]] const std::vector<std::string>& errors() const noexcept { return errors_; }

 private:
  struct RankState {
    RankState(std::int32_t num_layers, IdRange<SlotId> slots, RoutingTable table)
        : weights(num_layers, slots), publisher(std::move(table)), reader(publisher.make_reader()) {}

    GuardedWeights weights;
    TablePublisher publisher;
    TableReader reader;
    std::optional<TableLease> lease;  ///< While a forward runs.
    std::unique_ptr<Heartbeat> heartbeat;
    std::unique_ptr<Engine> engine;  ///< Null: killed.
    Forward next;
    bool is_stopped = false;
    bool has_left = false;  ///< By an error of `advance` or `progress`.
  };

  void make_rank(Rank rank, const Placement& placement, std::unique_ptr<Transport> channel,
                 std::unique_ptr<Transport> beats, const std::optional<HeartbeatOptions>& heartbeat,
                 ExpertSource* source);
  void drive(std::size_t rank);
  [[nodiscard]] bool is_finished(const RankState& rank) const;

  Topology topology_;
  EngineOptions options_;
  VirtualClock clock_;
  std::vector<std::unique_ptr<RankState>> ranks_;
  std::map<std::pair<std::uint32_t, Forward>, std::set<std::size_t>> begun_;  ///< By view and forward.
  std::vector<std::vector<Epoch>> served_;
  std::vector<std::string> errors_;
};

}  // namespace trimtab::test
