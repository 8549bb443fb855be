// SPDX-License-Identifier: Apache-2.0
#include "conformance/thread_ranks.hpp"
#include "conformance/transport_conformance.hpp"
#include "support/faulty_transport.hpp"

#include <trimtab/transport/inproc.hpp>

namespace trimtab::test {
namespace {

// A decorator without a script must not be noticed.
class FaultlessFixture final : public TransportFixture {
 public:
  void run(std::int32_t num_ranks, const std::function<void(End)>& body) override {
    Result<std::vector<End>> ends = make_inproc_transports(num_ranks);
    ASSERT_TRUE(ends) << ends.error().message;
    for (End& end : *ends) {
      end = std::make_unique<FaultyTransport>(std::move(end),
                                              std::make_shared<FaultScript>(std::vector<Fault>()));
    }
    run_on_threads(std::move(*ends), body);
  }
};

ConformanceParam faultless(std::int32_t num_ranks) {
  return {[] { return std::make_unique<FaultlessFixture>(); }, num_ranks};
}

INSTANTIATE_TEST_SUITE_P(Faultless, TransportConformance,
                         testing::Values(faultless(1), faultless(2), faultless(4)), name_of);

}  // namespace
}  // namespace trimtab::test
