// SPDX-License-Identifier: Apache-2.0
#include "app/exit_status.hpp"

#include <gtest/gtest.h>

#include <array>
#include <utility>

namespace trimtab::test {
namespace {

TEST(ExitStatus, IsStableForEveryKindOfFailure) {
  constexpr std::array<std::pair<Errc, int>, 13> rows{{{Errc::ok, 0},
                                                       {Errc::invalid_argument, 3},
                                                       {Errc::infeasible, 4},
                                                       {Errc::not_found, 3},
                                                       {Errc::unavailable, 2},
                                                       {Errc::timeout, 5},
                                                       {Errc::cancelled, 130},
                                                       {Errc::closed, 5},
                                                       {Errc::peer_lost, 5},
                                                       {Errc::io, 3},
                                                       {Errc::corrupt, 5},
                                                       {Errc::version_mismatch, 5},
                                                       {Errc::internal, 1}}};
  for (const auto& [code, status] : rows) {
    EXPECT_EQ(static_cast<int>(exit_status_of(code)), status) << to_string(code);
  }
}

TEST(ExitStatus, HelpListsEachOnce) {
  const std::string help = exit_status_help();
  for (const char* line : {"\n    0  ok", "\n    1  ", "\n    2  usage", "\n    3  bad input",
                           "\n    4  infeasible", "\n    5  ", "\n  130  interrupted"}) {
    EXPECT_NE(help.find(line), std::string::npos) << line;
  }
}

}  // namespace
}  // namespace trimtab::test
