// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/executor.hpp>

#include <atomic>
#include <thread>
#include <vector>

namespace trimtab::test {

/// Threads that take the next index as they come, so that the order differs from run to run: what must not
/// depend on the executor is tried against this one.
class ThreadedExecutor final : public Executor {
 public:
  explicit ThreadedExecutor(std::size_t num_threads) : num_threads_(num_threads) {}

  void for_each_index(std::size_t count, const std::function<void(std::size_t)>& work) override {
    std::atomic<std::size_t> next{0};
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < num_threads_; ++t) {
      threads.emplace_back([&] {
        for (std::size_t i = next++; i < count; i = next++) work(i);
      });
    }
  }

 private:
  std::size_t num_threads_;
};

}  // namespace trimtab::test
