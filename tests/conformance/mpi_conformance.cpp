// SPDX-License-Identifier: Apache-2.0
#include "conformance/ends.hpp"
#include "conformance/process_ranks.hpp"
#include "conformance/transport_conformance.hpp"

#include <trimtab/transport/mpi.hpp>

#include <sys/mman.h>

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
  return run_tests_of_rank(**end);
}

}  // namespace
}  // namespace trimtab::test

int main(int argc, char** argv) { return trimtab::test::main_of_rank(argc, argv); }
