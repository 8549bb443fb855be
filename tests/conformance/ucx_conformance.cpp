// SPDX-License-Identifier: Apache-2.0
#include "conformance/thread_ranks.hpp"
#include "conformance/transport_conformance.hpp"

#include <trimtab/transport/ucx.hpp>

#include <map>
#include <optional>

// Ranks are threads, each with a session of its own that all tests share; a test has a channel of its own.

namespace trimtab::test {
namespace {

using Sessions = std::vector<std::optional<UcxSession>>;

/// Runs `body(rank)` on a thread for each rank.
void on_threads(std::int32_t num_ranks, const std::function<void(Rank)>& body) {
  std::vector<std::jthread> threads;
  for (Rank rank : ids<Rank>(num_ranks)) threads.emplace_back([&body, rank] { body(rank); });
}

Sessions start(std::int32_t num_ranks, Clock::duration deadline) {
  Sessions sessions(static_cast<std::size_t>(num_ranks));
  const auto ranks = make_local_bootstraps(num_ranks);
  EXPECT_TRUE(ranks) << ranks.error().message;
  on_threads(num_ranks, [&](Rank rank) {
    Bootstrap bootstrap = (*ranks)[rank.index()];
    bootstrap.deadline = deadline;
    Result<UcxSession> session = UcxSession::start(bootstrap);
    ASSERT_TRUE(session) << session.error().message;
    sessions[rank.index()].emplace(std::move(*session));
  });
  return sessions;
}

Sessions& sessions_of(std::int32_t num_ranks) {
  static std::map<std::int32_t, Sessions> all;
  if (!all.contains(num_ranks)) all.emplace(num_ranks, start(num_ranks, std::chrono::seconds(30)));
  return all.at(num_ranks);
}

class UcxFixture final : public TransportFixture {
 public:
  void run(std::int32_t num_ranks, const std::function<void(End)>& body) override {
    Sessions& sessions = sessions_of(num_ranks);
    on_threads(num_ranks, [&](Rank rank) {
      ASSERT_TRUE(sessions[rank.index()]) << "rank " << rank.value() << " has no session";
      Result<End> end = make_ucx_transport(*sessions[rank.index()]);
      ASSERT_TRUE(end) << end.error().message;
      body(std::move(*end));
    });
  }
};

ConformanceParam ucx(std::int32_t num_ranks) {
  return {[] { return std::make_unique<UcxFixture>(); }, num_ranks};
}

INSTANTIATE_TEST_SUITE_P(Ucx, TransportConformance, testing::Values(ucx(1), ucx(2), ucx(4)), name_of);

TEST(UcxSession, NamesARankThatOpensNoChannelWithinTheDeadlineOfTheBootstrap) {
  constexpr std::chrono::seconds deadline(3);
  Sessions sessions = start(2, deadline);
  ASSERT_TRUE(sessions[0] && sessions[1]);
  const auto begin = std::chrono::steady_clock::now();
  const Result<End> end = make_ucx_transport(*sessions[0]);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5 * deadline);
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().code, Errc::timeout);
  EXPECT_EQ(end.error().message, "ucx end of rank 0: rank 1 has not opened channel 0 after 3000 ms");
}

}  // namespace
}  // namespace trimtab::test
