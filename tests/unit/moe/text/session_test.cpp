// SPDX-License-Identifier: Apache-2.0
#include "moe/text/session.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "moe/text/reference.hpp"
#include "unit/moe/rank_threads.hpp"
#include "unit/moe/text/some_model.hpp"

namespace trimtab::moe {
namespace {

/// Serves requests on ranks that are threads, each with a session of its own.
class Service {
 public:
  Service(const TextModel& model, TextTraffic traffic, const Placement& placement, std::int32_t ranks,
          std::size_t max_rows)
      : model_(model),
        traffic_(std::move(traffic)),
        topology_(*Topology::make_uniform(ranks, 1, placement.num_slots())),
        channels_(*make_inproc_transports(ranks)),
        weights_(model.config.experts, model),
        table_(*RoutingTable::compile(placement, topology_, {Epoch{0}, 0})),
        max_rows_(max_rows) {
    for (const Rank rank : ids<Rank>(ranks)) {
      memories_.emplace_back(model.config.experts, topology_.slots_of(rank));
      EXPECT_TRUE(memories_.back().load(placement, model).has_value());
      sessions_.push_back(std::make_unique<TextSession>(model, traffic_, rank, max_rows));
    }
  }

  void serve(std::uint64_t forwards) {
    std::vector<std::thread> threads;
    for (const Rank rank : ids<Rank>(topology_.num_ranks()))
      threads.emplace_back([this, rank, forwards] { serve_rank(rank, forwards); });
    for (std::thread& thread : threads) thread.join();
  }

  [[nodiscard]] const TextSession& session(std::size_t rank) const { return *sessions_[rank]; }

  /// @return how many answers there were.
  std::size_t expect_reference() {
    std::size_t count = 0;
    for (const auto& session : sessions_) {
      for (const TextAnswer& answer : session->answers()) {
        const TextAnswer expected = answer_by_reference(model_, traffic_, answer.request);
        EXPECT_EQ(answer.said, expected.said) << answer.request.id;
        EXPECT_EQ(answer.bits, expected.bits) << answer.request.id;
        EXPECT_EQ(answer.digest, expected.digest) << answer.request.id;
        ++count;
      }
    }
    return count;
  }

 private:
  void serve_rank(Rank rank, std::uint64_t forwards) {
    use_one_gemm_thread();
    TextSession& session = *sessions_[rank.index()];
    const ExecutorOptions options{.config = model_.config.experts, .max_tokens = max_rows_};
    ExecutorParts parts{*channels_[rank.index()], topology_, weights_,
                        memories_[rank.index()],  nullptr,   clock_};
    parts.around = &session;
    const auto executor = *RankExecutor::make(options, parts);
    for (std::uint64_t forward = 0; forward < forwards; ++forward) {
      const std::span<float> states = session.begin(Forward{forward});
      const Status done = executor->forward(Forward{forward}, states, model_.gate_bias(), table_);
      ASSERT_TRUE(done.has_value()) << done.error().message;
      session.finish();
    }
  }

  const TextModel& model_;
  TextTraffic traffic_;
  Topology topology_;
  std::vector<std::unique_ptr<Transport>> channels_;
  ReplicatedWeights weights_;
  RoutingTable table_;
  std::vector<ExpertMemory> memories_;
  SteadyClock clock_;
  std::size_t max_rows_;
  std::vector<std::unique_ptr<TextSession>> sessions_;
};

TEST(TextSession, AnswersAsTheReferenceForEveryBatchSize) {
  const TextModel model = some_text_model();
  for (const std::size_t max_rows : {1U, 2U, 5U, 16U, 41U}) {
    Service service(model, some_traffic(), shuffled(model.config.experts, 8, 1), 1, max_rows);
    service.serve(40);
    EXPECT_GE(service.expect_reference(), max_rows) << max_rows;
  }
}

TEST(TextSession, AnswersAsTheReferenceOnAnyRanksAndReplicas) {
  const TextModel model = some_text_model();
  for (const std::int32_t ranks : {2, 4}) {
    for (std::uint32_t seed = 0; seed < 3; ++seed) {
      Service service(model, some_traffic(), shuffled(model.config.experts, 12, seed), ranks, 7);
      service.serve(30);
      EXPECT_GE(service.expect_reference(), 20U);
    }
  }
}

TEST(TextSession, AnswersAsTheReferenceWhenBytesAreDrawn) {
  const TextModel model = some_text_model();
  TextTraffic traffic = some_traffic();
  traffic.sampling = {.temperature = 0.8, .seed = 3};
  Service service(model, traffic, shuffled(model.config.experts, 10, 2), 2, 9);
  service.serve(30);
  EXPECT_GE(service.expect_reference(), 20U);
}

TEST(TextSession, AnswersAsTheReferenceWithoutDenseLayers) {
  TextConfig config = small_text();
  config.dense_layers = 0;
  const TextModel model = some_text_model(config);
  Service service(model, some_traffic(), shuffled(config.experts, 8, 1), 1, 11);
  service.serve(20);
  EXPECT_GE(service.expect_reference(), 5U);
}

TEST(TextSession, FillsEveryForwardOnceSequencesAreThere) {
  const TextModel model = some_text_model();
  const TextTraffic traffic = some_traffic();
  TextSession session(model, traffic, Rank{0}, 32);
  for (std::uint64_t forward = 0; forward < 50; ++forward) {
    EXPECT_EQ(session.begin(Forward{forward}).size(), 32 * model.config.width());
    session.finish();
  }
}

TEST(TextSession, CountsEveryRowAndEveryByteOfAPrompt) {
  const TextModel model = some_text_model();
  const TextTraffic traffic = some_traffic();
  Service service(model, traffic, shuffled(model.config.experts, 8, 1), 1, 10);
  service.serve(40);
  const TextCounts& counts = service.session(0).counts();
  EXPECT_EQ(counts.prefilled + counts.decoded, 400);
  std::int64_t requests = 0;
  std::int64_t bytes = 0;
  double bits = 0.0;
  for (const DomainCount& domain : counts.domains) {
    requests += domain.requests;
    bytes += domain.bytes;
    bits += domain.bits;
  }
  const auto& answers = service.session(0).answers();
  EXPECT_EQ(requests, static_cast<std::int64_t>(answers.size()));
  EXPECT_GE(bytes, 9 * requests);
  EXPECT_GT(bits, static_cast<double>(bytes));  // Random weights need more than a bit.
  EXPECT_EQ(std::accumulate(counts.heat.begin(), counts.heat.end(), std::int64_t{0}),
            400 * 2 * 2);  // By layer and choice.
}

TEST(TextSession, OtherOutputsHaveAnotherChecksum) {
  const TextModel model = some_text_model();
  const TextTraffic traffic = some_traffic();
  TextSession one(model, traffic, Rank{0}, 8);
  TextSession other(model, traffic, Rank{0}, 8);
  one.begin(Forward{0});
  const std::span<float> states = other.begin(Forward{0});
  states[3] = std::nextafter(states[3], 2.0f);
  EXPECT_NE(one.finish(), other.finish());
}

}  // namespace
}  // namespace trimtab::moe
