// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/cluster.hpp"
#include "support/placements.hpp"

#include <trimtab/balance/balancer.hpp>
#include <trimtab/core/imbalance.hpp>
#include <trimtab/transport/inproc.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <thread>

namespace trimtab::test {

inline constexpr std::int32_t num_experts = 4;
inline constexpr std::int32_t num_slots = 6;
inline constexpr std::int32_t num_layers = 2;
inline constexpr RecordContext context;

inline Placement start() { return *Placement::identity(num_layers, num_slots, num_experts); }

/// One rank with everything a balancer needs, on a thread of its own: the reduction of counts waits for the
/// others.
struct BalancedRank {
  BalancedRank(Transport& root, const Topology& on, std::uint64_t split_every)
      : topology(on),
        weights(num_layers, on.slots_of(root.rank())),
        publisher(*RoutingTable::compile(start(), on, {Epoch{0}, 0})),
        recorder(num_layers, num_slots, 1),
        counts_channel(*root.open_channel()) {
    weights.fill(start());
    EngineOptions engine_options;
    engine_options.staging_budget_bytes = 1 << 16;
    engine = *Engine::make(engine_options, *root.open_channel(), weights.store(), publisher, topology,
                           start(), clock);
    BalancerOptions options;
    options.rebalance_every = 2;
    options.split_every = split_every;
    options.collective.tag = Tag{1};
    balancer =
        std::make_unique<Balancer>(options, *counts_channel, recorder, *engine, publisher, executor, clock);
  }

  /// Counts `tokens` tokens for one slot of one layer.
  void count(LayerId layer, SlotId slot, std::size_t tokens) {
    const std::vector<SlotId> slots(tokens, slot);
    const auto num_tokens = static_cast<std::int64_t>(tokens);
    ASSERT_TRUE(recorder.record(context, engine->health().epoch, layer, slots, num_tokens));
    recorder.commit_forward();
  }

  /// As many forwards as lead to one plan.
  void complete_window() {
    ASSERT_TRUE(balancer->on_forward_completed());
    ASSERT_TRUE(balancer->on_forward_completed());
  }

  void settle() {
    while (!engine->is_idle()) {
      ASSERT_TRUE(engine->advance(next, std::chrono::milliseconds(1)));
      next = next.next();
      std::this_thread::yield();
    }
  }

  const Topology& topology;
  GuardedWeights weights;
  TablePublisher publisher;
  Recorder recorder;
  SteadyClock clock;
  SerialExecutor executor;
  std::unique_ptr<Transport> counts_channel;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Balancer> balancer;
  Forward next;
};

/// Runs `body` on two ranks and then lets `inspect` look at each of them.
inline void on_two_ranks(const std::function<void(BalancedRank&, Rank)>& body,
                         std::uint64_t split_every = 0) {
  const Topology topology = uniform(2, 1, num_slots);
  auto ends = make_inproc_transports(2);
  ASSERT_TRUE(ends);
  std::vector<std::jthread> threads;
  for (auto& end : *ends) {
    threads.emplace_back([&body, &topology, split_every, root = end.get()] {
      BalancedRank rank(*root, topology, split_every);
      body(rank, root->rank());
    });
  }
}

inline double imbalance(const Placement& placement, LayerId layer, const std::vector<double>& loads,
                        const Topology& topology) {
  return compute_imbalance(compute_rank_loads(loads, placement.layer(layer), topology), topology)
      .max_over_mean();
}

}  // namespace trimtab::test
