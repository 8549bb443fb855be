// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/transport/transport.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>

namespace trimtab::test {

using End = std::unique_ptr<Transport>;

/// What the suite needs of a back-end: ranks that run the same body, each with its own end of a new channel.
class TransportFixture {
 public:
  virtual ~TransportFixture() = default;

  /// Runs `body` once per rank and returns when every rank that lives here is through. Ranks may be threads
  /// of this process, or processes that each call this with the same test.
  virtual void run(std::int32_t num_ranks, const std::function<void(End)>& body) = 0;
};

struct ConformanceParam {
  std::function<std::unique_ptr<TransportFixture>()> make;
  std::int32_t num_ranks = 1;

  friend void PrintTo(const ConformanceParam& param, std::ostream* out) {
    *out << param.num_ranks << " ranks";
  }
};

/// The suite. A back-end registers with INSTANTIATE_TEST_SUITE_P, once per program, and names its tests by
/// `name_of`.
class TransportConformance : public testing::TestWithParam<ConformanceParam> {
 protected:
  [[nodiscard]] std::int32_t num_ranks() const { return GetParam().num_ranks; }
  void run(const std::function<void(End)>& body) { GetParam().make()->run(num_ranks(), body); }
};

/// "2_ranks"
[[nodiscard]] std::string name_of(const testing::TestParamInfo<ConformanceParam>& info);

}  // namespace trimtab::test

/// One rank alone has nobody to talk to.
#define NEEDS_PEERS() \
  if (num_ranks() < 2) GTEST_SKIP() << "needs 2 ranks"
