// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/executor.hpp>

#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <cstddef>
#include <functional>

namespace trimtab {

/// Spreads work over at most `num_threads` threads of TBB's pool, the calling one included.
class TbbExecutor final : public Executor {
 public:
  explicit TbbExecutor(int num_threads)
      : limit_(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(num_threads)),
        arena_(num_threads) {}

  void for_each_index(std::size_t count, const std::function<void(std::size_t)>& work) override {
    arena_.execute([&] { tbb::parallel_for(std::size_t{0}, count, work); });
  }

 private:
  // Without it TBB warns on standard error when asked for more threads than there are cores.
  tbb::global_control limit_;
  tbb::task_arena arena_;
};

}  // namespace trimtab
