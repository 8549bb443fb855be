// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/transport/transport.hpp>

namespace trimtab::test {

/// Runs the tests of this program, one process of several that run the same ones: the first reports them, the
/// others only what failed. @return the exit code of this process: every rank fails when one did.
[[nodiscard]] int run_tests_of_rank(Transport& end);

}  // namespace trimtab::test
