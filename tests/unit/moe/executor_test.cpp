// SPDX-License-Identifier: Apache-2.0
#include "moe/executor.hpp"

#include <trimtab/transport/inproc.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "moe/gemm.hpp"
#include "moe/reference.hpp"
#include "moe/token_stream.hpp"

namespace trimtab::moe {
namespace {

using Reals = std::vector<float>;

const ModelConfig small{.num_layers = 3,
                        .num_experts = 8,
                        .top_k = 3,
                        .hidden = 64,
                        .intermediate = 32,
                        .num_groups = 4,
                        .top_groups = 3};

Reals some_bias(const ModelConfig& config) {
  Reals bias(config.layers() * config.experts());
  std::mt19937 random(9);
  std::uniform_real_distribution<float> pick(-0.3f, 0.3f);
  for (float& b : bias) b = pick(random);
  return bias;
}

Reals tokens_of(const ModelConfig& config, Rank rank, Forward forward, std::size_t count) {
  Reals states(count * config.width());
  fill_tokens(config, forward, rank, 0, states);
  return states;
}

Reals reference_of(const ModelConfig& config, Reals states) {
  run_reference(config, some_bias(config), states);
  return states;
}

/// Ranks as threads of this process.
class Cluster {
 public:
  Cluster(const ModelConfig& config, std::int32_t ranks, std::int32_t slots, std::int32_t nodes = 1)
      : config_(config),
        topology_(*Topology::make_uniform(ranks, nodes, slots)),
        channels_(*make_inproc_transports(ranks)),
        weights_(config) {
    for (const Rank rank : ids<Rank>(ranks)) memories_.emplace_back(config, topology_.slots_of(rank));
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
                                                   Clock::duration deadline = std::chrono::seconds(60)) {
    use_one_gemm_thread();
    auto& recorder = recorders_[rank.index()];
    return std::move(*RankExecutor::make(
        {config_, max_tokens, deadline, {}},
        {channel(rank), topology_, weights_, memory(rank), recorder ? &*recorder : nullptr, clock_}));
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
Placement shuffled(const ModelConfig& config, std::int32_t slots, std::uint32_t seed) {
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

Placement identity(const ModelConfig& config, std::int32_t slots) {
  return *Placement::identity(config.num_layers, slots, config.num_experts);
}

void expect_reference(const ModelConfig& config, std::int32_t ranks, const Placement& placement,
                      const std::vector<std::size_t>& counts) {
  Cluster cluster(config, ranks, placement.num_slots());
  cluster.load(placement);
  const std::vector<Reals> outputs = cluster.forward(counts);
  for (const Rank rank : ids<Rank>(ranks)) {
    const Reals expected = reference_of(config, tokens_of(config, rank, Forward{0}, counts[rank.index()]));
    EXPECT_EQ(outputs[rank.index()], expected) << ranks << " ranks, rank " << rank.value();
  }
}

TEST(RankExecutor, EqualsReferenceForEveryBatchSize) {
  for (const std::size_t count : {1, 2, 3, 5, 17, 33}) {
    expect_reference(small, 1, identity(small, 8), {count});
  }
}

TEST(RankExecutor, EqualsReferenceOnTwoAndFourRanks) {
  expect_reference(small, 2, identity(small, 8), {9, 12});
  expect_reference(small, 4, identity(small, 10), {3, 1, 4, 7});
}

TEST(RankExecutor, EqualsReferenceUnderShuffledReplicas) {
  for (std::uint32_t seed = 0; seed < 4; ++seed) {
    expect_reference(small, 2, shuffled(small, 12, seed), {9, 12});
    expect_reference(small, 4, shuffled(small, 15, seed), {3, 5, 4, 7});
  }
}

TEST(RankExecutor, EqualsReferenceForOddShapes) {
  const ModelConfig odd{.num_layers = 2, .num_experts = 5, .top_k = 2, .hidden = 37, .intermediate = 19};
  expect_reference(odd, 2, shuffled(odd, 7, 1), {6, 11});
}

TEST(RankExecutor, EqualsReferenceInLargeBatches) {
  // More than one block of rows per expert.
  const ModelConfig narrow{.num_layers = 1, .num_experts = 2, .top_k = 2, .hidden = 16, .intermediate = 8};
  expect_reference(narrow, 2, identity(narrow, 2), {300, 77});
}

// sgl-project/sglang test_lplb_distributed: a rank without tokens skipped its part and the others hung.
TEST(RankExecutor, RanksWithoutTokensTakePart) {
  expect_reference(small, 4, shuffled(small, 12, 3), {0, 5, 0, 2});
  expect_reference(small, 2, identity(small, 8), {0, 1});
}

TEST(RankExecutor, ManyForwardsWithOneExecutorEqualReference) {
  Cluster cluster(small, 2, 12);
  const Placement placement = shuffled(small, 12, 7);
  cluster.load(placement);
  const Reals bias = some_bias(small);
  cluster.on_all([&](Rank rank) {
    const auto executor = cluster.make(rank, 8);
    for (std::uint64_t f = 0; f < 6; ++f) {
      Reals states = tokens_of(small, rank, Forward{f}, 1 + (f * 3 + rank.index()) % 8);
      const Reals expected = reference_of(small, states);
      const Status done = executor->forward(Forward{f}, states, bias, cluster.table(rank));
      ASSERT_TRUE(done.has_value()) << done.error().message;
      EXPECT_EQ(states, expected) << "forward " << f;
    }
  });
}

TEST(RankExecutor, OutputDoesNotDependOnReplicaOrRank) {
  std::optional<std::vector<Reals>> first;
  for (std::uint32_t seed = 0; seed < 3; ++seed) {
    Cluster cluster(small, 2, 16);
    cluster.load(shuffled(small, 16, seed));
    const std::vector<Reals> outputs = cluster.forward({10, 10});
    if (!first) first = outputs;
    EXPECT_EQ(outputs, *first);
  }
}

// vllm-project/vllm#34646 and others: weights moved, scales did not. The comparison must see it.
TEST(RankExecutor, WrongTensorInOneSlotChangesOutputs) {
  const Placement placement = identity(small, 8);
  const std::vector<std::function<void(Bundle)>> mutations{
      [](Bundle b) { b.w13[3] = static_cast<std::int8_t>(b.w13[3] > 0 ? -60 : 60); },
      [](Bundle b) { b.w13_scale[1] *= 1.5f; },
      [](Bundle b) { b.w13_offset[2] += 3; },
      [](Bundle b) { b.w2[5] = static_cast<std::int8_t>(b.w2[5] > 0 ? -60 : 60); },
      [](Bundle b) { b.w2_scale[0] *= 1.5f; },
      [](Bundle b) { b.w2_offset[4] -= 3; }};
  for (std::size_t i = 0; i < mutations.size(); ++i) {
    Cluster cluster(small, 2, 8);
    cluster.load(placement);
    mutations[i](cluster.memory(Rank{1}).bundle(LayerId{0}, SlotId{6}));
    const std::vector<Reals> outputs = cluster.forward({20, 20});
    EXPECT_NE(outputs[0], reference_of(small, tokens_of(small, Rank{0}, Forward{0}, 20))) << "mutation " << i;
  }
}

TEST(RankExecutor, ReportsRowsOfEachSlotAsRecorded) {
  Cluster cluster(small, 2, 12);
  const Placement placement = shuffled(small, 12, 5);
  cluster.load(placement);
  cluster.record(12);
  const Reals bias = some_bias(small);
  std::vector<std::int64_t> rows(small.layers() * 12, 0);
  cluster.on_all([&](Rank rank) {
    const auto executor = cluster.make(rank, 25);
    Reals states = tokens_of(small, rank, Forward{0}, 25);
    ASSERT_TRUE(executor->forward(Forward{0}, states, bias, cluster.table(rank)).has_value());
    for (const LayerId layer : ids<LayerId>(small.num_layers)) {
      const auto local = executor->rows(layer);
      const std::size_t first = layer.index() * 12 + cluster.topology().slots_of(rank).first().index();
      std::copy(local.begin(), local.end(), rows.begin() + static_cast<std::ptrdiff_t>(first));
    }
  });
  std::vector<std::int64_t> recorded(rows.size(), 0);
  for (const Rank rank : ids<Rank>(2)) {
    const std::vector<SlotCounts> window = cluster.recorder(rank).take_window({});
    ASSERT_EQ(window.size(), 1u);
    EXPECT_TRUE(fold_counts(window[0], placement).has_value());
    for (std::size_t i = 0; i < recorded.size(); ++i) recorded[i] += window[0].counts[i];
  }
  EXPECT_EQ(rows, recorded);
}

/// Runs one forward on two ranks that disagree; returns their errors.
std::vector<Error> run_disagreeing(Cluster& cluster, Forward of_rank0, Forward of_rank1) {
  std::vector<Error> errors(2);
  const Reals bias = some_bias(small);
  cluster.on_all([&](Rank rank) {
    const auto executor = cluster.make(rank, 4);
    Reals states = tokens_of(small, rank, Forward{0}, 4);
    const Status done =
        executor->forward(rank == Rank{0} ? of_rank0 : of_rank1, states, bias, cluster.table(rank));
    errors[rank.index()] = done ? Error{Errc::ok, "accepted"} : done.error();
  });
  return errors;
}

TEST(RankExecutor, RefusesMessagesOfAnotherEpochNamingBoth) {
  Cluster cluster(small, 2, 8);
  cluster.load(identity(small, 8), Epoch{4});
  cluster.set_table(Rank{1}, identity(small, 8), {Epoch{5}, 0});
  const std::vector<Error> errors = run_disagreeing(cluster, Forward{9}, Forward{9});
  EXPECT_EQ(errors[0].code, Errc::version_mismatch);
  EXPECT_EQ(
      errors[0].message,
      "rank 1 is at epoch 5, split 0, forward 9, layer 0; this rank at epoch 4, split 0, forward 9, layer 0");
  EXPECT_EQ(errors[1].code, Errc::version_mismatch);
}

TEST(RankExecutor, RefusesMessagesOfAnotherForwardOrSplit) {
  Cluster forwards(small, 2, 8);
  forwards.load(identity(small, 8));
  EXPECT_EQ(run_disagreeing(forwards, Forward{9}, Forward{10})[0].code, Errc::version_mismatch);
  Cluster splits(small, 2, 8);
  splits.load(identity(small, 8));
  splits.set_table(Rank{1}, identity(small, 8), {Epoch{0}, 1});
  EXPECT_EQ(run_disagreeing(splits, Forward{9}, Forward{9})[0].code, Errc::version_mismatch);
}

TEST(RankExecutor, NamesTheRankItWaitedFor) {
  Cluster cluster(small, 2, 8);
  cluster.load(identity(small, 8));
  const auto executor = cluster.make(Rank{0}, 4, std::chrono::milliseconds(20));
  Reals states = tokens_of(small, Rank{0}, Forward{0}, 4);
  const Reals bias = some_bias(small);
  // Rank 1 never comes.
  const Status done = executor->forward(Forward{0}, states, bias, cluster.table(Rank{0}));
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().code, Errc::timeout);
  EXPECT_EQ(done.error().message, "a message from rank 1 took more than 20 ms");
  const Status again = executor->forward(Forward{1}, states, bias, cluster.table(Rank{0}));
  ASSERT_FALSE(again.has_value());
  EXPECT_EQ(again.error().code, Errc::closed);
}

TEST(RankExecutor, DropsCountsOfAFailedForward) {
  Cluster cluster(small, 2, 8);
  cluster.load(identity(small, 8), Epoch{4});
  cluster.record(8);
  cluster.set_table(Rank{1}, identity(small, 8), {Epoch{5}, 0});
  run_disagreeing(cluster, Forward{0}, Forward{0});
  for (const SlotCounts& counts : cluster.recorder(Rank{0}).take_window({})) {
    EXPECT_EQ(std::accumulate(counts.counts.begin(), counts.counts.end(), std::int64_t{0}), 0);
  }
}

TEST(RankExecutor, RefusesRowsForSlotsOfOthers) {
  Cluster cluster(small, 2, 8);
  cluster.load(identity(small, 8));
  Error error;
  const Reals bias = some_bias(small);
  cluster.on_all([&](Rank rank) {
    if (rank == Rank{1}) {
      struct Message {
        MessageHeader header;
        RowTarget target;
        std::int8_t values[64];
      } message{};
      message.header = make_header(MessageKind::rows, {{Epoch{0}, 0}, Forward{0}, LayerId{0}}, 1);
      message.target.slot = SlotId{7};
      const Leg leg = send_leg(Rank{0}, rows_tag, std::as_bytes(std::span(&message, 1)));
      const Result<Ticket> ticket = cluster.channel(rank).post({&leg, 1});
      ASSERT_TRUE(ticket.has_value());
      while (*cluster.channel(rank).poll(*ticket, std::chrono::milliseconds(1)) == Progress::pending) {
      }
      std::vector<std::byte> buffer(4096);
      const Leg back = receive_leg(Rank{0}, rows_tag, buffer);
      const Result<Ticket> received = cluster.channel(rank).post({&back, 1});
      ASSERT_TRUE(received.has_value());
      while (*cluster.channel(rank).poll(*received, std::chrono::milliseconds(1)) == Progress::pending) {
      }
      return;
    }
    const auto executor = cluster.make(rank, 4);
    Reals states = tokens_of(small, rank, Forward{0}, 4);
    const Status done = executor->forward(Forward{0}, states, bias, cluster.table(rank));
    error = done ? Error{Errc::ok, "accepted"} : done.error();
  });
  EXPECT_EQ(error.code, Errc::corrupt);
  EXPECT_EQ(error.message, "layer 0: rank 1 sent row 0 to slot 7, which is not of rank 0");
}

TEST(RankExecutor, RefusesInputThatDoesNotFit) {
  Cluster cluster(small, 1, 8);
  cluster.load(identity(small, 8));
  const auto executor = cluster.make(Rank{0}, 2);
  Reals states(3 * small.width());
  const Reals bias = some_bias(small);
  const auto code = [&](std::span<float> s, std::span<const float> b) {
    const Status done = executor->forward(Forward{0}, s, b, cluster.table(Rank{0}));
    return done ? Errc::ok : done.error().code;
  };
  EXPECT_EQ(code(states, bias), Errc::invalid_argument);
  EXPECT_EQ(code(std::span(states).first(65), bias), Errc::invalid_argument);
  EXPECT_EQ(code(std::span(states).first(64), std::span(bias).first(5)), Errc::invalid_argument);
  EXPECT_EQ(code(std::span(states).first(64), bias), Errc::ok);
}

TEST(RankExecutor, RefusesPartsThatDoNotFit) {
  Cluster cluster(small, 2, 8);
  const ReplicatedWeights weights(small);
  const SteadyClock clock;
  const Topology three = *Topology::make_uniform(3, 1, 8);
  const auto made =
      RankExecutor::make({small, 2, std::chrono::seconds(1), {}},
                         {cluster.channel(Rank{0}), three, weights, cluster.memory(Rank{0}), nullptr, clock});
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().message, "a channel of 2 ranks for a topology of 3");
  const auto wrong = RankExecutor::make(
      {small, 2, std::chrono::seconds(1), {}},
      {cluster.channel(Rank{0}), cluster.topology(), weights, cluster.memory(Rank{1}), nullptr, clock});
  ASSERT_FALSE(wrong.has_value());
  EXPECT_EQ(wrong.error().message, "rank 0: memory of 4 slots from 4 for 4 slots from 0");
}

}  // namespace
}  // namespace trimtab::moe
