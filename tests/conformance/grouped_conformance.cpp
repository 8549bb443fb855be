// SPDX-License-Identifier: Apache-2.0
#include "conformance/thread_ranks.hpp"
#include "conformance/transport_conformance.hpp"

#include "grouped_end.hpp"

// The transport of examples/03_your_own_transport.cpp: how a back-end of one's own registers.

namespace trimtab::test {
namespace {

class GroupedFixture final : public TransportFixture {
 public:
  void run(std::int32_t num_ranks, const std::function<void(End)>& body) override {
    run_on_threads(own::make_grouped_transports(num_ranks), body);
  }
};

ConformanceParam grouped(std::int32_t num_ranks) {
  return {[] { return std::make_unique<GroupedFixture>(); }, num_ranks};
}

INSTANTIATE_TEST_SUITE_P(Grouped, TransportConformance, testing::Values(grouped(1), grouped(2), grouped(4)),
                         name_of);

}  // namespace
}  // namespace trimtab::test
