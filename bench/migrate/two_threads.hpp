// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <barrier>
#include <chrono>
#include <functional>
#include <thread>

namespace trimtab::bench {

/// Runs one function on two threads at once, again and again, without paying for their start.
class TwoThreads {
 public:
  TwoThreads() : other_([this] { serve(); }) {}
  ~TwoThreads() {
    work_ = nullptr;
    together_.arrive_and_wait();
  }
  TwoThreads(const TwoThreads&) = delete;
  TwoThreads& operator=(const TwoThreads&) = delete;

  /// Seconds until both are through `work(0)` and `work(1)`.
  double run(std::function<void(std::size_t)> work) {
    work_ = std::move(work);
    together_.arrive_and_wait();
    const auto begun = std::chrono::steady_clock::now();
    work_(0);
    together_.arrive_and_wait();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  }

 private:
  void serve() {
    for (;;) {
      together_.arrive_and_wait();
      if (!work_) return;
      work_(1);
      together_.arrive_and_wait();
    }
  }

  std::barrier<> together_{2};
  std::function<void(std::size_t)> work_;
  std::jthread other_;
};

}  // namespace trimtab::bench
