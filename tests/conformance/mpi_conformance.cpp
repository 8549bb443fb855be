// SPDX-License-Identifier: Apache-2.0
#include "conformance/ends.hpp"
#include "conformance/transport_conformance.hpp"

#include <trimtab/transport/mpi.hpp>

#include <sys/mman.h>

#include <array>
#include <cstdio>
#include <limits>
#include <string>

// A program of its own: one process per rank, started by mpiexec, all running the same tests in the same
// order.

namespace trimtab::test {
namespace {

MpiSession* session = nullptr;

class MpiFixture final : public TransportFixture {
 public:
  void run(std::int32_t /*num_ranks*/, const std::function<void(End)>& body) override {
    Result<End> end = make_mpi_transport(*session);
    ASSERT_TRUE(end) << end.error().message;
    body(std::move(*end));
  }
};

// Evaluated by InitGoogleTest, when MPI is live.
ConformanceParam world() {
  const Result<End> end = make_mpi_transport(*session);
  return {[] { return std::make_unique<MpiFixture>(); }, end ? (*end)->num_ranks() : 0};
}

INSTANTIATE_TEST_SUITE_P(Mpi, TransportConformance, testing::Values(world()), name_of);

TEST(MpiSession, LeavesMpiToWhoeverStartedIt) {
  { const Result<MpiSession> second = MpiSession::start(); }
  EXPECT_TRUE(make_mpi_transport(*session)) << "the second session must not have ended MPI";
}

TEST(MpiTransport, RefusesMessageLargerThanMpiCanCount) {
  Result<End> end = make_mpi_transport(*session);
  ASSERT_TRUE(end);
  if ((*end)->num_ranks() < 2) GTEST_SKIP() << "needs 2 ranks";
  constexpr std::size_t size = std::size_t{std::numeric_limits<int>::max()} + 1;
  void* const memory = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const Leg leg = receive_leg(others(**end).front(), Tag{1}, {static_cast<std::byte*>(memory), size});
  const Result<Ticket> ticket = (*end)->post({&leg, 1});
  munmap(memory, size);
  ASSERT_FALSE(ticket);
  EXPECT_EQ(ticket.error().code, Errc::invalid_argument);
  EXPECT_NE(ticket.error().message.find("2147483648 bytes > 2147483647"), std::string::npos)
      << ticket.error().message;
}

/// For every rank but the first: only what failed, and where, so that the ranks' reports do not mix.
class FailuresOnly final : public testing::EmptyTestEventListener {
 public:
  explicit FailuresOnly(Rank rank) : rank_(rank) {}
  void OnTestStart(const testing::TestInfo& test) override { test_ = test.name(); }
  void OnTestPartResult(const testing::TestPartResult& part) override {
    if (!part.failed()) return;
    std::fprintf(stderr, "rank %d: %s: %s:%d: %s\n", rank_.value(), test_.c_str(),
                 part.file_name() != nullptr ? part.file_name() : "", part.line_number(), part.message());
  }

 private:
  Rank rank_;
  std::string test_;  // asked for here, gtest would wait for itself
};

/// Every rank fails when one did: whatever the launcher makes of exit codes.
int run_tests(Transport& end) {
  const std::array<std::int64_t, 1> mine{RUN_ALL_TESTS()};
  std::array<std::int64_t, 1> failures = mine;
  const Status summed =
      all_reduce_sum(end, SteadyClock(), {.tag = Tag{1}, .deadline = std::chrono::minutes(1)}, failures);
  if (!summed) std::fprintf(stderr, "%s\n", summed.error().message.c_str());
  return summed && failures[0] == 0 ? 0 : 1;
}

int main_of_rank(int argc, char** argv) {
  Result<MpiSession> started = MpiSession::start();
  if (!started) {
    std::fprintf(stderr, "%s\n", started.error().message.c_str());
    return 1;
  }
  session = &*started;
  testing::InitGoogleTest(&argc, argv);
  Result<End> end = make_mpi_transport(*session);
  if (!end) return 1;
  if ((*end)->rank() != Rank{0}) {
    testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailuresOnly((*end)->rank()));
  }
  return run_tests(**end);
}

}  // namespace
}  // namespace trimtab::test

int main(int argc, char** argv) { return trimtab::test::main_of_rank(argc, argv); }
