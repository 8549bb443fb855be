// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/transport/inproc.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "moe/executor.hpp"
#include "moe/gemm.hpp"
#include "moe/reference.hpp"
#include "moe/replay/replay_executor.hpp"
#include "moe/token_stream.hpp"

namespace trimtab::moe {

using Reals = std::vector<float>;

inline const ModelConfig small{.num_layers = 3,
                               .num_experts = 8,
                               .top_k = 3,
                               .hidden = 64,
                               .intermediate = 32,
                               .num_groups = 4,
                               .top_groups = 3};

inline Reals some_bias(const ModelConfig& config) {
  Reals bias(config.layers() * config.experts());
  std::mt19937 random(9);
  std::uniform_real_distribution<float> pick(-0.3f, 0.3f);
  for (float& b : bias) b = pick(random);
  return bias;
}

inline Reals tokens_of(const ModelConfig& config, Rank rank, Forward forward, std::size_t count) {
  Reals states(count * config.width());
  fill_tokens(config, forward, rank, 0, states);
  return states;
}

inline Reals reference_of(const ModelConfig& config, Reals states) {
  run_reference(config, some_bias(config), states);
  return states;
}

/// Ranks as threads of this process.
class RankThreads {
 public:
  RankThreads(const ModelConfig& config, std::int32_t ranks, std::int32_t slots,
              WeightLayout layout = WeightLayout::dense)
      : config_(config),
        topology_(*Topology::make_uniform(ranks, 1, slots)),
        channels_(*make_inproc_transports(ranks)),
        weights_(config) {
    for (const Rank rank : ids<Rank>(ranks)) {
      memories_.emplace_back(config, topology_.slots_of(rank), layout);
    }
    recorders_.resize(memories_.size());
  }

  void load(const Placement& placement, Epoch epoch = Epoch{0}) {
    for (ExpertMemory& memory : memories_) ASSERT_TRUE(memory.load(placement).has_value());
    tables_.assign(memories_.size(), *RoutingTable::compile(placement, topology_, {epoch, 0}));
  }
  void set_table(Rank rank, const Placement& placement, TableIdentity identity) {
    tables_[rank.index()] = *RoutingTable::compile(placement, topology_, identity);
  }
  void record(std::int32_t slots) {
    for (auto& recorder : recorders_) recorder.emplace(config_.num_layers, slots, config_.top_k);
  }

  [[nodiscard]] const Topology& topology() const { return topology_; }
  [[nodiscard]] ExpertMemory& memory(Rank rank) { return memories_[rank.index()]; }
  [[nodiscard]] Recorder& recorder(Rank rank) { return *recorders_[rank.index()]; }
  [[nodiscard]] Transport& channel(Rank rank) { return *channels_[rank.index()]; }

  /// Makes a rank's executor; call it on the rank's thread.
  [[nodiscard]] std::unique_ptr<RankExecutor> make(Rank rank, std::size_t max_tokens,
                                                   Clock::duration deadline = std::chrono::seconds(60),
                                                   std::function<Status()> while_waiting = {}) {
    use_one_gemm_thread();
    return std::move(*RankExecutor::make({config_, max_tokens, deadline, {}},
                                         parts_of(rank, memory(rank), std::move(while_waiting))));
  }
  /// The same with forwards that are recorded now, from the weights in `memory`.
  [[nodiscard]] std::unique_ptr<ReplayExecutor> make_replay(
      Rank rank, std::size_t max_tokens, const ExpertMemory& memory,
      Clock::duration deadline = std::chrono::seconds(60), std::function<Status()> while_waiting = {}) {
    use_one_gemm_thread();
    return std::move(*ReplayExecutor::make({config_, max_tokens, deadline, {}},
                                           parts_of(rank, memory, std::move(while_waiting))));
  }
  [[nodiscard]] std::unique_ptr<ReplayExecutor> make_replay(Rank rank, std::size_t max_tokens) {
    return make_replay(rank, max_tokens, memory(rank));
  }
  [[nodiscard]] const RoutingTable& table(Rank rank) const { return tables_[rank.index()]; }

  /// Calls `work` for every rank, on threads of their own.
  void on_all(const std::function<void(Rank)>& work) {
    std::vector<std::thread> threads;
    for (const Rank rank : ids<Rank>(topology_.num_ranks())) threads.emplace_back(work, rank);
    for (std::thread& thread : threads) thread.join();
  }

  /// One forward; rank r brings `counts[r]` tokens. Returns the outputs by rank.
  std::vector<Reals> forward(const std::vector<std::size_t>& counts, Forward number = Forward{0}) {
    std::vector<Reals> states(counts.size());
    const Reals bias = some_bias(config_);
    on_all([&](Rank rank) {
      const std::size_t r = rank.index();
      states[r] = tokens_of(config_, rank, number, counts[r]);
      const auto executor = make(rank, *std::max_element(counts.begin(), counts.end()));
      const Status done = executor->forward(number, states[r], bias, table(rank));
      EXPECT_TRUE(done.has_value()) << (done ? "" : done.error().message);
    });
    return states;
  }

 private:
  [[nodiscard]] ExecutorParts parts_of(Rank rank, const ExpertMemory& memory,
                                       std::function<Status()> while_waiting = {}) {
    auto& recorder = recorders_[rank.index()];
    return {channel(rank),           topology_, weights_, memory, recorder ? &*recorder : nullptr, clock_,
            std::move(while_waiting)};
  }

  ModelConfig config_;
  Topology topology_;
  std::vector<std::unique_ptr<Transport>> channels_;
  ReplicatedWeights weights_;
  std::vector<ExpertMemory> memories_;
  std::vector<std::optional<Recorder>> recorders_;
  std::vector<RoutingTable> tables_;
  SteadyClock clock_;
};

/// Every expert once in a random place, the other slots by chance.
inline Placement shuffled(const ModelConfig& config, std::int32_t slots, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<ExpertId> map;
  for (std::int32_t l = 0; l < config.num_layers; ++l) {
    std::vector<ExpertId> row;
    for (std::int32_t s = 0; s < slots; ++s) {
      const auto any = static_cast<std::int32_t>(random() % config.experts());
      row.push_back(ExpertId{s < config.num_experts ? s : any});
    }
    std::shuffle(row.begin(), row.end(), random);
    map.insert(map.end(), row.begin(), row.end());
  }
  return *Placement::make(config.num_layers, slots, config.num_experts, map);
}

inline Placement identity(const ModelConfig& config, std::int32_t slots) {
  return *Placement::identity(config.num_layers, slots, config.num_experts);
}

}  // namespace trimtab::moe
