// SPDX-License-Identifier: Apache-2.0
#include "conformance/process_ranks.hpp"

#include <trimtab/core/clock.hpp>
#include <trimtab/transport/collectives.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <string>

namespace trimtab::test {
namespace {

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

}  // namespace

// Whatever the launcher makes of exit codes.
int run_tests_of_rank(Transport& end) {
  if (end.rank() != Rank{0}) {
    testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailuresOnly(end.rank()));
  }
  std::array<std::int64_t, 1> failures{RUN_ALL_TESTS()};
  const Status summed =
      all_reduce_sum(end, SteadyClock(), {.tag = Tag{1}, .deadline = std::chrono::minutes(1)}, failures);
  if (!summed) std::fprintf(stderr, "%s\n", summed.error().message.c_str());
  return summed && failures[0] == 0 ? 0 : 1;
}

}  // namespace trimtab::test
