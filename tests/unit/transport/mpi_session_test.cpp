// SPDX-License-Identifier: Apache-2.0
#include <trimtab/transport/mpi.hpp>

#include <gtest/gtest.h>

namespace trimtab::test {
namespace {

// Unit tests run without a launcher; what works under one is tested by the conformance suite.
TEST(MpiSession, IsUnavailableWithoutLauncherOrWithoutMpi) {
  const Result<MpiSession> session = MpiSession::start();
  ASSERT_FALSE(session);
  EXPECT_EQ(session.error().code, Errc::unavailable);
  const bool tells_what_to_do = session.error().message.find("mpirun -n N trimtab") != std::string::npos ||
                                session.error().message.find("TRIMTAB_ENABLE_MPI") != std::string::npos;
  EXPECT_TRUE(tells_what_to_do) << session.error().message;
}

}  // namespace
}  // namespace trimtab::test
