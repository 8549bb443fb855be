// SPDX-License-Identifier: Apache-2.0
#include "conformance/thread_ranks.hpp"
#include "conformance/transport_conformance.hpp"

#include <trimtab/transport/inproc.hpp>

namespace trimtab::test {
namespace {

class InprocFixture final : public TransportFixture {
 public:
  void run(std::int32_t num_ranks, const std::function<void(End)>& body) override {
    Result<std::vector<End>> ends = make_inproc_transports(num_ranks);
    ASSERT_TRUE(ends) << ends.error().message;
    run_on_threads(std::move(*ends), body);
  }
};

ConformanceParam inproc(std::int32_t num_ranks) {
  return {[] { return std::make_unique<InprocFixture>(); }, num_ranks};
}

INSTANTIATE_TEST_SUITE_P(Inproc, TransportConformance, testing::Values(inproc(1), inproc(2), inproc(4)),
                         name_of);

}  // namespace
}  // namespace trimtab::test
