// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <benchmark/benchmark.h>

namespace trimtab::bench {

/// The whole of `main` for programs that register their benchmarks themselves: `register_all` has no
/// arguments and runs first.
template <class RegisterAll>
int run_registered(int argc, char** argv, RegisterAll register_all) {
  register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace trimtab::bench
