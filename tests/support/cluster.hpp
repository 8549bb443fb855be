// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "verify/virtual_clock.hpp"

#include <trimtab/core/placement.hpp>
#include <trimtab/core/topology.hpp>
#include <trimtab/migrate/engine.hpp>
#include <trimtab/migrate/program.hpp>
#include <trimtab/route/table_publisher.hpp>
#include <trimtab/transport/transport.hpp>
#include <trimtab/weights/expert_store.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
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

  Cluster(Topology topology, const Placement& placement, EngineOptions options, const Wrap& wrap = {});

  [[nodiscard]] Program make_program(const Placement& to) const;
  /// Begins the program that leads to `to` on every rank.
  void begin(const Placement& to);
  /// One `advance` on each rank that is between forwards, in rank order; admitted ranks begin the forward
  /// under a lease. A forward is collective: it ends once every rank that still serves has begun it.
  void tick();
  /// Ticks until all are idle, at most `max_ticks` times, letting `per_tick` pass on the clock each time.
  /// False when they are not.
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
    std::unique_ptr<Engine> engine;
    bool has_stopped = false;
  };

  Topology topology_;
  EngineOptions options_;
  VirtualClock clock_;
  std::vector<std::unique_ptr<RankState>> ranks_;
  Forward next_;
  std::vector<std::vector<Epoch>> served_;
  std::vector<std::string> errors_;
};

}  // namespace trimtab::test
