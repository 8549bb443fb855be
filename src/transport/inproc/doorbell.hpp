// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace trimtab::inproc {

/// Wakes one waiting rank. Ringing costs one load while nobody sleeps.
///
/// The condition must be read and written with sequentially consistent atomics, and written before `ring`:
/// then either the sleeper sees the new value or the ringer sees the sleeper.
class Doorbell {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  void ring() noexcept {
    if (!is_waited_at_.load()) return;
    const std::lock_guard lock(mutex_);
    changed_.notify_one();
  }

  /// By one thread at a time. Returns when `condition()` holds or `deadline` has passed.
  template <class Condition>
  void wait(const Condition& condition, time_point deadline) {
    if (spin(condition)) return;
    std::unique_lock lock(mutex_);
    is_waited_at_.store(true);
    changed_.wait_until(lock, deadline, condition);
    is_waited_at_.store(false);
  }

 private:
  static void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
  }

  // A peer on another core answers within microseconds, which is less than a sleep costs; but ranks may share
  // a core, so the core is offered to them early.
  template <class Condition>
  static bool spin(const Condition& condition) {
    constexpr int num_pauses = 100;
    constexpr int num_yields = 50;
    for (int i = 0; i < num_pauses + num_yields; ++i) {
      if (condition()) return true;
      if (i < num_pauses) {
        pause();
      } else {
        std::this_thread::yield();
      }
    }
    return false;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> is_waited_at_{false};
};

}  // namespace trimtab::inproc
