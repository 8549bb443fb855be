// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "conformance/transport_conformance.hpp"

#include <thread>
#include <vector>

namespace trimtab::test {

/// Runs `body` with each end on a thread of its own, and waits for all.
inline void run_on_threads(std::vector<End> ends, const std::function<void(End)>& body) {
  std::vector<std::thread> threads;
  for (End& end : ends) {
    threads.emplace_back([&body, mine = std::move(end)]() mutable { body(std::move(mine)); });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace trimtab::test
