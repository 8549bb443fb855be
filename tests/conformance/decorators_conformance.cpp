// SPDX-License-Identifier: Apache-2.0
#include "conformance/thread_ranks.hpp"
#include "conformance/transport_conformance.hpp"

#include <trimtab/core/clock.hpp>
#include <trimtab/transport/faulty.hpp>
#include <trimtab/transport/inproc.hpp>
#include <trimtab/transport/logging.hpp>
#include <trimtab/transport/throttled.hpp>

#include <string>
#include <utility>

namespace trimtab::test {
namespace {

using Wrap = std::function<End(End)>;

// A decorator that has nothing to do must not be noticed.
class DecoratedFixture final : public TransportFixture {
 public:
  explicit DecoratedFixture(Wrap wrap) : wrap_(std::move(wrap)) {}

  void run(std::int32_t num_ranks, const std::function<void(End)>& body) override {
    Result<std::vector<End>> ends = make_inproc_transports(num_ranks);
    ASSERT_TRUE(ends) << ends.error().message;
    for (End& end : *ends) end = wrap_(std::move(end));
    run_on_threads(std::move(*ends), body);
  }

 private:
  Wrap wrap_;
};

End faultless(End end) {
  return std::make_unique<FaultyTransport>(std::move(end),
                                           std::make_shared<FaultScript>(std::vector<Fault>()));
}

End throttled(End end) {
  static const SteadyClock clock;
  constexpr double bytes_per_second = 1e9;  // 1 GB/s: large messages of the suite are withheld for a while.
  return std::make_unique<ThrottledTransport>(std::move(end), bytes_per_second, clock);
}

End logging(End end) {
  return std::make_unique<LoggingTransport>(std::move(end), [](std::string_view line) {
    EXPECT_TRUE(line.starts_with("rank "));
    EXPECT_FALSE(line.ends_with('\n'));
  });
}

ConformanceParam decorated(Wrap wrap, std::int32_t num_ranks) {
  return {[wrap] { return std::make_unique<DecoratedFixture>(wrap); }, num_ranks};
}

INSTANTIATE_TEST_SUITE_P(Faultless, TransportConformance,
                         testing::Values(decorated(faultless, 1), decorated(faultless, 2),
                                         decorated(faultless, 4)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Throttled, TransportConformance,
                         testing::Values(decorated(throttled, 1), decorated(throttled, 2),
                                         decorated(throttled, 4)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Logging, TransportConformance,
                         testing::Values(decorated(logging, 1), decorated(logging, 2), decorated(logging, 4)),
                         name_of);

}  // namespace
}  // namespace trimtab::test
