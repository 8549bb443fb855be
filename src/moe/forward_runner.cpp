// SPDX-License-Identifier: Apache-2.0
#include "moe/forward_runner.hpp"

#include "moe/executor.hpp"
#include "moe/replay/replay_executor.hpp"

namespace trimtab::moe {
namespace {

template <class Runner>
Result<std::unique_ptr<ForwardRunner>> make(const ExecutorOptions& options, const ExecutorParts& parts) {
  Result<std::unique_ptr<Runner>> made = Runner::make(options, parts);
  if (!made) return failure(std::move(made));
  return std::unique_ptr<ForwardRunner>(std::move(*made));
}

}  // namespace

Result<std::unique_ptr<ForwardRunner>> make_forward_runner(bool replays_graphs,
                                                           const ExecutorOptions& options,
                                                           const ExecutorParts& parts) {
  return replays_graphs ? make<ReplayExecutor>(options, parts) : make<RankExecutor>(options, parts);
}

}  // namespace trimtab::moe
