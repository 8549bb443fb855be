// SPDX-License-Identifier: Apache-2.0
#include "moe/service.hpp"

#include <trimtab/transport/decorator.hpp>
#include <trimtab/transport/inproc.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "moe/gemm.hpp"
#include "verify/cut_transport.hpp"

// A rank may be gone at any moment of the service, between any two of its messages.

namespace trimtab::moe {
namespace {

constexpr std::int32_t num_ranks = 3;
constexpr std::int64_t for_ever = 1'000'000'000;

/// What is left of a rank or a link, in messages.
struct Life {
  explicit Life(std::int64_t messages) : messages_left(messages) {}
  std::atomic<std::int64_t> messages_left;
  std::atomic<bool> is_counted{false};
};

/// All of a dying rank's ends fail at one moment, as if its process were gone. Messages are counted from the
/// first of the channel that is opened first, the off arm's: by then all ranks serve.
class MortalEnd final : public TransportDecorator {
 public:
  MortalEnd(std::unique_ptr<Transport> inner, std::shared_ptr<Life> life, bool begins_to_count)
      : TransportDecorator(std::move(inner)), life_(std::move(life)), begins_to_count_(begins_to_count) {}

  Result<Ticket> post(std::span<const Leg> legs) override {
    if (begins_to_count_) life_->is_counted = true;
    if (life_->is_counted && life_->messages_left.fetch_sub(1) <= 0) {
      close();
      return failure(Errc::closed, "it is dead");
    }
    return inner().post(legs);
  }
  Result<std::unique_ptr<Transport>> open_channel() override {
    Result<std::unique_ptr<Transport>> opened = inner().open_channel();
    if (!opened) return opened;
    const bool is_first = num_opened_++ == 0;
    return std::unique_ptr<Transport>(std::make_unique<MortalEnd>(std::move(*opened), life_, is_first));
  }

 private:
  std::shared_ptr<Life> life_;
  bool begins_to_count_;
  int num_opened_ = 0;
};

/// The end of a link that is cut from one moment on, with all its channels.
class CutEnd final : public TransportDecorator {
 public:
  /// @param number  0: the root; else which of its channels
  CutEnd(std::unique_ptr<Transport> inner, std::shared_ptr<Life> life, int number)
      : TransportDecorator(std::move(inner)), life_(std::move(life)), number_(number) {}

  /// Counts those of the on arm's forwards, whose channel is the second that is opened.
  Result<Ticket> post(std::span<const Leg> legs) override {
    constexpr int on_forwards = 2;
    if (number_ == on_forwards) --life_->messages_left;
    return inner().post(legs);
  }
  Result<std::unique_ptr<Transport>> open_channel() override {
    Result<std::unique_ptr<Transport>> opened = inner().open_channel();
    if (!opened) return opened;
    return std::unique_ptr<Transport>(std::make_unique<CutEnd>(std::move(*opened), life_, ++num_opened_));
  }

 private:
  std::shared_ptr<Life> life_;
  int number_;
  int num_opened_ = 0;
};

constexpr ModelConfig model{
    .num_layers = 2, .num_experts = 8, .top_k = 2, .hidden = 40, .intermediate = 24, .seed = 3};

class Survival : public testing::Test {
 protected:
  void SetUp() override {
    std::string path = (std::filesystem::temp_directory_path() / "trimtab-XXXXXX").string();
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    folder_ = path;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] ServiceOptions options() const {
    const std::vector<float> bias(model.layers() * model.experts());
    ServiceOptions options{.model = model,
                           .topology = *Topology::make_uniform(num_ranks, 1, 5 * num_ranks),
                           .schedule = *GateSchedule::make(model, bias, 16)};
    options.tokens_per_rank = 12;
    options.num_quads = 2;
    options.block_forwards = 4;
    options.rebalance_every = 2;
    options.reference_batches = 8;
    options.deadline = options.migration_deadline = std::chrono::seconds(20);
    options.survival.emplace().checkpoint = folder_;
    return options;
  }

  /// By rank; `mortal` lives for so many messages.
  [[nodiscard]] std::vector<Result<moe::ServiceReport>> serve(Rank mortal,
                                                              const std::shared_ptr<Life>& life) const {
    auto ends = *make_inproc_transports(num_ranks);
    ends[mortal.index()] = std::make_unique<MortalEnd>(std::move(ends[mortal.index()]), life, false);
    return serve(std::move(ends), options());
  }
  [[nodiscard]] static std::vector<Result<moe::ServiceReport>> serve(
      std::vector<std::unique_ptr<Transport>> ends, const ServiceOptions& all) {
    std::vector<Result<moe::ServiceReport>> reports(ends.size());
    const SteadyClock clock;
    std::vector<std::jthread> threads;
    for (std::size_t r = 0; r < ends.size(); ++r) {
      threads.emplace_back([&, r] {
        use_one_gemm_thread();
        reports[r] = serve_rank(all, *ends[r], clock, nullptr);
        if (!reports[r]) ends[r]->close();
      });
    }
    threads.clear();
    return reports;
  }

  std::string folder_;
};

void expect_survived(const Result<moe::ServiceReport>& report, Rank dead) {
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->outputs_identical);
  EXPECT_GT(report->reference_checked, 0);
  EXPECT_EQ(report->unchanged_slots_written, 0);
  if (!report->death) return;  // It came after the last forward.
  std::vector<Rank> others;
  for (Rank rank : ids<Rank>(num_ranks)) {
    if (rank != dead) others.push_back(rank);
  }
  EXPECT_EQ(report->death->members, others);
}

// In forwards and barriers, in both arms and between them, in reductions and migrations.
TEST_F(Survival, RankMayDieBetweenAnyTwoOfItsMessages) {
  constexpr std::int64_t num_moments = 60;
  const auto whole = std::make_shared<Life>(for_ever);
  for (const Result<moe::ServiceReport>& report : serve(Rank{1}, whole)) {
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_FALSE(report->death);
  }
  const std::int64_t num_messages = for_ever - whole->messages_left;
  ASSERT_GT(num_messages, num_moments);
  int num_deaths = 0;
  for (std::int64_t i = 0; i < num_moments; ++i) {
    const Rank dying{static_cast<std::int32_t>(i % num_ranks)};
    const std::int64_t moment = num_messages * i / num_moments + i % 7;
    SCOPED_TRACE(testing::Message() << "rank " << dying.value() << " after " << moment << " messages");
    const auto reports = serve(dying, std::make_shared<Life>(moment));
    for (Rank rank : ids<Rank>(num_ranks)) {
      if (rank != dying) expect_survived(reports[rank.index()], dying);
    }
    if (reports[dying.index()]) continue;  // It had no more to say.
    EXPECT_EQ(reports[dying.index()].error().code, Errc::closed) << reports[dying.index()].error().message;
    ++num_deaths;
  }
  EXPECT_GT(num_deaths, num_moments / 2);
}

// No heartbeat runs over this link: only forwards find it cut.
TEST_F(Survival, AllButOneEndOfACutLinkGoOn) {
  constexpr std::int64_t some_forwards = 70;
  const auto link = std::make_shared<Life>(some_forwards);
  auto ends = *make_inproc_transports(num_ranks);
  for (const auto& [rank, peer] : {std::pair{1U, Rank{2}}, {2U, Rank{1}}}) {
    auto end = std::make_unique<verify::CutTransport>(std::move(ends[rank]), [link, peer = peer](Rank to) {
      return to == peer && link->messages_left <= 0;
    });
    ends[rank] = std::make_unique<CutEnd>(std::move(end), link, 0);
  }
  ServiceOptions options = this->options();
  options.deadline = std::chrono::seconds(6);
  options.migration_deadline = std::chrono::seconds(1);
  const auto reports = serve(std::move(ends), options);
  for (std::size_t r : {0U, 1U}) {
    expect_survived(reports[r], Rank{2});
    ASSERT_TRUE(reports[r]->death);
    EXPECT_GT(reports[r]->death->forward, 0);
  }
  ASSERT_FALSE(reports[2]);
  EXPECT_NE(reports[2].error().message.find("a link of it is cut"), std::string::npos)
      << reports[2].error().message;
}

}  // namespace
}  // namespace trimtab::moe
