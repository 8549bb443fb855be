// SPDX-License-Identifier: Apache-2.0
#include "conformance/ends.hpp"
#include "conformance/process_ranks.hpp"
#include "conformance/transport_conformance.hpp"

#include <trimtab/transport/ucx.hpp>

#include <cstdio>

// One process per rank, started by launch_ranks, all running the same tests in the same order.

namespace trimtab::test {
namespace {

UcxSession* session = nullptr;
std::int32_t num_processes = 0;

class UcxProcessFixture final : public TransportFixture {
 public:
  void run(std::int32_t /*num_ranks*/, const std::function<void(End)>& body) override {
    Result<End> end = make_ucx_transport(*session);
    ASSERT_TRUE(end) << end.error().message;
    body(std::move(*end));
  }
};

// Evaluated by InitGoogleTest, when the session has started.
ConformanceParam world() {
  return {[] { return std::make_unique<UcxProcessFixture>(); }, num_processes};
}

INSTANTIATE_TEST_SUITE_P(Ucx, TransportConformance, testing::Values(world()), name_of);

int refuse(const Error& error) {
  std::fprintf(stderr, "%s\n", error.message.c_str());
  return 1;
}

int main_of_rank(int argc, char** argv) {
  const Result<std::optional<Bootstrap>> bootstrap = find_bootstrap(process_environment());
  if (!bootstrap) return refuse(bootstrap.error());
  if (!*bootstrap) return refuse({Errc::unavailable, "to be started by launch_ranks"});
  num_processes = (*bootstrap)->num_ranks;
  Result<UcxSession> started = UcxSession::start(**bootstrap);
  if (!started) return refuse(started.error());
  session = &*started;
  testing::InitGoogleTest(&argc, argv);
  Result<End> end = make_ucx_transport(*session);
  return end ? run_tests_of_rank(**end) : refuse(end.error());
}

}  // namespace
}  // namespace trimtab::test

int main(int argc, char** argv) { return trimtab::test::main_of_rank(argc, argv); }
