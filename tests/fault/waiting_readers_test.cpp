// SPDX-License-Identifier: Apache-2.0
// Batches of several threads are in flight while slots are rewritten: for ThreadSanitizer, and for values.
// vllm-project/vllm#32881, #37601: buffers were overwritten under their readers.
#include "support/cluster.hpp"
#include "support/placements.hpp"
#include "verify/expert_values.hpp"

#include <trimtab/migrate/background_progress.hpp>
#include <trimtab/transport/inproc.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace trimtab::test {
namespace {

using namespace std::chrono_literals;

constexpr std::int32_t num_layers = 2;
constexpr std::int32_t num_experts = 6;
constexpr std::int32_t num_slots = 8;
constexpr std::int32_t num_ranks = 2;
constexpr std::uint64_t num_programs = 50;

/// A thread that serves batches of one rank: it takes the table when it is told to begin, and reads all
/// experts of its rank again and again before it lets go.
class BatchWorker {
 public:
  BatchWorker(TablePublisher& publisher, const ExpertStore& store)
      : publisher_(publisher), store_(store), thread_([this] { run(); }) {}
  /// Between batches.
  ~BatchWorker() {
    leave(Stage::running);
    enter(Stage::over);
  }
  BatchWorker(const BatchWorker&) = delete;
  BatchWorker& operator=(const BatchWorker&) = delete;

  /// Waits for the batch before, and returns when this one holds its table.
  void begin_batch() {
    leave(Stage::running);
    enter(Stage::asked);
    leave(Stage::asked);
  }
  [[nodiscard]] std::int64_t num_read() const { return num_read_.load(); }
  [[nodiscard]] std::int64_t num_wrong() const { return num_wrong_.load(); }

 private:
  enum class Stage : std::uint8_t { free, asked, running, over };

  void enter(Stage stage) {
    const std::lock_guard lock(mutex_);
    stage_ = stage;
    changed_.notify_all();
  }
  /// Waits until the stage is another one, and returns it.
  Stage leave(Stage stage) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stage_ != stage; });
    return stage_;
  }

  void run() {
    TableReader reader = publisher_.make_reader();
    while (leave(Stage::free) == Stage::asked) {
      serve(reader.acquire());
      enter(Stage::free);
    }
  }

  /// The table is let go on return.
  void serve(TableLease table) {
    enter(Stage::running);
    for (int pass = 0; pass < 5; ++pass) {
      for (LayerId layer : ids<LayerId>(num_layers)) {
        for (ExpertId expert : ids<ExpertId>(num_experts)) read(*table, layer, expert);
      }
    }
  }

  void read(const RoutingTable& table, LayerId layer, ExpertId expert) {
    for (SlotId slot : table.replicas(layer, expert)) {
      if (!store_.slots().contains(slot)) continue;
      for (std::size_t t = 0; t < store_.tensors(layer).size(); ++t) {
        const auto bytes = store_.tensor_payload(layer, t, slot);
        for (std::size_t i = 0; i < bytes.size(); ++i) {
          if (bytes[i] != verify::expert_byte(layer, expert, t, i)) num_wrong_.fetch_add(1);
        }
      }
      num_read_.fetch_add(1);
    }
  }

  TablePublisher& publisher_;
  const ExpertStore& store_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Stage stage_ = Stage::free;  ///< Guarded by the mutex.
  std::atomic<std::int64_t> num_read_{0};
  std::atomic<std::int64_t> num_wrong_{0};
  std::jthread thread_;
};

/// The placement that program `index` leads to; 0: where all begin.
Placement placement_after(std::uint64_t index) {
  return random_placement(num_layers, num_slots, num_experts, 11 + index);
}

/// What the ranks know of each other beside their messages.
struct Service {
  std::array<std::atomic<std::uint64_t>, num_ranks> begun{};  ///< Forwards, by rank.
  std::atomic<std::int32_t> num_finished{0};

  [[nodiscard]] bool is_over() const { return num_finished.load() == num_ranks; }
  [[nodiscard]] bool have_all_begun(std::uint64_t count) const {
    return std::ranges::all_of(begun, [&](const auto& b) { return b.load() >= count; });
  }
};

/// One rank: its forward thread is the caller's, its batches run on three others.
class ServingRank {
 public:
  ServingRank(const Topology& topology, std::unique_ptr<Transport> channel, bool in_background)
      : index_(channel->rank().index()),
        weights_(num_layers, topology.slots_of(channel->rank())),
        publisher_(*RoutingTable::compile(placement_after(0), topology, {})) {
    weights_.fill(placement_after(0));
    EngineOptions options;
    options.staging_budget_bytes = std::size_t{1} << 12;
    options.deadline = 120s;  // Sanitizers are slow; nothing here is lost.
    engine_ = *Engine::make(options, std::move(channel), weights_.store(), publisher_, topology,
                            placement_after(0), clock_);
    if (in_background) engine_ = make_background_engine(std::move(engine_));
    for (int i = 0; i < 3; ++i)
      workers_.push_back(std::make_unique<BatchWorker>(publisher_, weights_.store()));
  }

  /// Serves until every rank has reached the last placement.
  void run(Service& service) {
    std::uint64_t num_begun = 0;
    bool has_finished = false;
    for (Forward next; !service.is_over();) {
      if (engine_->is_idle() && num_begun < num_programs) {
        ASSERT_TRUE(engine_->begin_toward({.to = placement_after(++num_begun)}));
      } else if (engine_->is_idle() && !has_finished) {
        has_finished = true;
        service.num_finished.fetch_add(1);
      }
      const Result<Admission> admission = engine_->advance(next, 100us);
      ASSERT_TRUE(admission) << admission.error().message;
      if (*admission == Admission::go) {
        serve(next, service);
        next = next.next();
      } else {
        std::this_thread::yield();
      }
    }
  }

  void expect_all_right() {
    workers_.clear();
    EXPECT_EQ(engine_->counters().steps_rolled_back, 0U);
    EXPECT_EQ(weights_.find_difference(placement_after(num_programs)), "");
  }
  [[nodiscard]] const std::vector<std::unique_ptr<BatchWorker>>& workers() const { return workers_; }

 private:
  /// A forward is collective: it waits until every rank has begun it.
  void serve(Forward forward, Service& service) {
    begin_batch();
    const std::uint64_t count = forward.value() + 1;
    service.begun[index_].store(count);
    while (!service.have_all_begun(count) && !service.is_over()) {
      ASSERT_TRUE(engine_->progress(100us));
      std::this_thread::yield();
    }
  }
  /// In turn, so that each has work.
  void begin_batch() { workers_[num_batches_++ % workers_.size()]->begin_batch(); }

  std::size_t index_;
  SteadyClock clock_;
  GuardedWeights weights_;
  TablePublisher publisher_;
  std::unique_ptr<Engine> engine_;
  std::vector<std::unique_ptr<BatchWorker>> workers_;
  std::size_t num_batches_ = 0;
};

class WaitingReaders : public testing::TestWithParam<bool> {};

TEST_P(WaitingReaders, SeeWholeExpertsOfTheirTableWhileSlotsAreRewritten) {
  const Topology topology = uniform(num_ranks, 1, num_slots);
  auto channels = *make_inproc_transports(num_ranks);
  std::vector<std::unique_ptr<ServingRank>> ranks;
  for (auto& channel : channels)
    ranks.push_back(std::make_unique<ServingRank>(topology, std::move(channel), GetParam()));
  Service service;
  {
    std::vector<std::jthread> threads;
    for (auto& rank : ranks) threads.emplace_back([&] { rank->run(service); });
  }
  for (auto& rank : ranks) {
    for (const auto& worker : rank->workers()) {
      EXPECT_EQ(worker->num_wrong(), 0);
      EXPECT_GT(worker->num_read(), 0);
    }
    rank->expect_all_right();
  }
}

INSTANTIATE_TEST_SUITE_P(Progress, WaitingReaders, testing::Bool(),
                         [](const auto& param) { return param.param ? "InBackground" : "InCalls"; });

}  // namespace
}  // namespace trimtab::test
