// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/result.hpp>
#include <trimtab/transport/bootstrap.hpp>

#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <utility>

// What benchmarks of several processes need. Anything that goes wrong there ends the process.

namespace trimtab::bench {

/// Says what is wrong and ends the process.
[[noreturn]] inline void give_up(const char* what) {
  std::fprintf(stderr, "bench: %s\n", what);
  std::_Exit(1);
}

template <class T>
T value_of(Result<T> result) {
  if (!result) give_up(result.error().message.c_str());
  return std::move(*result);
}

/// A child that does not outlive its parent, and parts from nobody.
template <class Body>
pid_t fork_child(const Body& body) {
  const pid_t process = ::fork();
  if (process != 0) return process;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  body();
  std::_Exit(0);
}

/// This side of two processes that meet in `n` ways.
template <std::size_t n>
struct TwoSides {
  std::array<Bootstrap, n> ways;  ///< As rank 0.
  int orders = -1;                ///< Where the other one is told what to do.
};

/// Forks rank 1, which runs `serve(ways, orders)` until no more orders can be read. To be called before there
/// is any thread.
template <std::size_t n, class Serve>
TwoSides<n> fork_other_side(const Serve& serve) {
  TwoSides<n> here;
  std::array<Bootstrap, n> there;
  for (std::size_t i = 0; i < n; ++i) {
    auto ranks = value_of(make_local_bootstraps(2));
    here.ways[i] = ranks[0];
    there[i] = ranks[1];
  }
  std::array<int, 2> orders{};
  if (::pipe(orders.data()) != 0) give_up("no pipe");
  fork_child([&] {
    ::close(orders[1]);
    for (Bootstrap& way : here.ways) way.listening.reset();
    serve(there, orders[0]);
  });
  ::close(orders[0]);
  here.orders = orders[1];
  return here;
}

}  // namespace trimtab::bench
