// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>

namespace trimtab {

/// Runs independent pieces of work. The library owns no threads; the caller decides.
class Executor {
 public:
  virtual ~Executor() = default;

  /// Calls `work(i)` once for every i < count, in any order, on any threads, and returns when all are done.
  /// `work` must not throw and must write only what belongs to its own i.
  virtual void for_each_index(std::size_t count, const std::function<void(std::size_t)>& work) = 0;
};

/// On the calling thread, in ascending order.
class SerialExecutor final : public Executor {
 public:
  void for_each_index(std::size_t count, const std::function<void(std::size_t)>& work) override {
    for (std::size_t i = 0; i < count; ++i) work(i);
  }
};

}  // namespace trimtab
