// SPDX-License-Identifier: Apache-2.0
#include <trimtab/balance/balancer.hpp>
#include <trimtab/core/imbalance.hpp>

#include "support/cluster.hpp"
#include "support/placements.hpp"

#include <trimtab/transport/inproc.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <thread>

namespace trimtab::test {
namespace {

constexpr std::int32_t num_experts = 4;
constexpr std::int32_t num_slots = 6;
constexpr std::int32_t num_layers = 2;
constexpr RecordContext context;

Placement start() { return *Placement::identity(num_layers, num_slots, num_experts); }

/// One rank with everything a balancer needs, on a thread of its own: the reduction of counts waits for the
/// others.
struct BalancedRank {
  BalancedRank(Transport& root, const Topology& on)
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
    options.bundle_bytes = {192, 192};
    options.staging_budget_bytes = engine_options.staging_budget_bytes;
    options.collective.tag = Tag{1};
    balancer =
        std::make_unique<Balancer>(options, *counts_channel, recorder, *engine, topology, executor, clock);
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
void on_two_ranks(const std::function<void(BalancedRank&, Rank)>& body) {
  const Topology topology = uniform(2, 1, num_slots);
  auto ends = make_inproc_transports(2);
  ASSERT_TRUE(ends);
  std::vector<std::jthread> threads;
  for (auto& end : *ends) {
    threads.emplace_back([&body, &topology, root = end.get()] {
      BalancedRank rank(*root, topology);
      body(rank, root->rank());
    });
  }
}

double imbalance(const Placement& placement, LayerId layer, const std::vector<double>& loads,
                 const Topology& topology) {
  return compute_imbalance(compute_rank_loads(loads, placement.layer(layer), topology), topology)
      .max_over_mean();
}

TEST(Balancer, PlansFromTheSumOfAllRanksCounts) {
  // Each rank alone sees one hot expert; together experts 0 and 2 are hot, both of which have a slot on rank
  // 0.
  on_two_ranks([](BalancedRank& rank, Rank id) {
    rank.count(LayerId{0}, SlotId{id == Rank{0} ? 0 : 2}, 100);
    rank.count(LayerId{1}, SlotId{1}, 10);
    rank.complete_window();
    rank.settle();
    EXPECT_EQ(rank.balancer->counters().programs_begun, 1U);
    EXPECT_LE(imbalance(rank.engine->placement(), LayerId{0}, {100, 0, 100, 0}, rank.topology), 1.0 + 1e-9);
    EXPECT_EQ(rank.weights.find_difference(rank.engine->placement()), "");
  });
}

TEST(Balancer, DoesNothingBeforeTheIntervalIsOver) {
  on_two_ranks([](BalancedRank& rank, Rank) {
    rank.count(LayerId{0}, SlotId{0}, 100);
    ASSERT_TRUE(rank.balancer->on_forward_completed());
    EXPECT_TRUE(rank.engine->is_idle());
    EXPECT_EQ(rank.balancer->counters().windows_planned, 0U);
  });
}

TEST(Balancer,
     KeepsALayerThatTheWindowDidNotSee) {  // vllm-project/vllm-ascend#12154: a dummy run without load
  on_two_ranks([](BalancedRank& rank, Rank) {
    rank.count(LayerId{0}, SlotId{0}, 100);
    rank.count(LayerId{1}, SlotId{0}, 100);
    rank.complete_window();
    rank.settle();
    const Placement planned = rank.engine->placement();
    const SlotId hot = planned.replicas(LayerId{0}, ExpertId{2})[0];
    rank.count(LayerId{0}, hot, 100);  // Layer 1 is silent now.
    rank.complete_window();
    rank.settle();
    EXPECT_TRUE(std::ranges::equal(rank.engine->placement().layer(LayerId{1}), planned.layer(LayerId{1})));
  });
}

TEST(Balancer, RefusesAWindowThatOneRankCountedWrongOnEveryRank) {  // R5; alibaba/rtp-llm 0c6756cca planned
                                                                    // from dead counters
  on_two_ranks([](BalancedRank& rank, Rank id) {
    if (id == Rank{1}) {
      const std::vector<SlotId> lost{no_slot};  // A valid token that went nowhere.
      ASSERT_TRUE(rank.recorder.record(context, Epoch{0}, LayerId{0}, lost, 1));
      rank.recorder.commit_forward();
    }
    rank.count(LayerId{0}, SlotId{0}, 100);
    rank.complete_window();
    EXPECT_EQ(rank.balancer->counters().windows_refused, 1U);
    EXPECT_EQ(rank.balancer->counters().windows_planned, 0U);
    EXPECT_TRUE(rank.engine->is_idle());
    EXPECT_EQ(rank.balancer->last_problem().has_value(), id == Rank{1});
  });
}

TEST(Balancer, PlansNothingFromAnEmptyWindow) {
  on_two_ranks([](BalancedRank& rank, Rank) {
    rank.complete_window();
    EXPECT_EQ(rank.balancer->counters().windows_skipped, 1U);
    EXPECT_TRUE(rank.engine->is_idle());
  });
}

TEST(Balancer, SkipsAWindowWhileAProgramRunsOnAnyRank) {
  on_two_ranks([](BalancedRank& rank, Rank) {
    rank.count(LayerId{0}, SlotId{2}, 100);
    rank.complete_window();
    ASSERT_FALSE(rank.engine->is_idle());
    rank.count(LayerId{0}, SlotId{1}, 100);
    rank.complete_window();
    EXPECT_EQ(rank.balancer->counters().windows_skipped, 1U);
    EXPECT_EQ(rank.balancer->counters().programs_begun, 1U);
  });
}

TEST(Balancer,
     FoldsCountsOfTwoEpochsWithTheirOwnPlacements) {  // jd-opensource/xllm folds old counts with the new map
  on_two_ranks([](BalancedRank& rank, Rank) {
    rank.count(LayerId{0}, SlotId{0}, 100);
    rank.count(LayerId{0}, SlotId{2}, 100);
    rank.complete_window();
    rank.count(LayerId{0}, SlotId{3}, 1000);  // Expert 3 under epoch 0; the slot may hold another one soon.
    rank.settle();
    ASSERT_EQ(rank.engine->health().epoch, Epoch{1});
    rank.complete_window();
    rank.settle();
    EXPECT_LE(imbalance(rank.engine->placement(), LayerId{0}, {0, 0, 0, 2000}, rank.topology), 1.0 + 1e-9);
  });
}

}  // namespace
}  // namespace trimtab::test
