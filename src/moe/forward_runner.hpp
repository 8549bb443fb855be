// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/core/result.hpp>
#include <trimtab/route/routing_table.hpp>

#include <cstdint>
#include <memory>
#include <span>

#include "moe/replay/replay_report.hpp"

namespace trimtab::moe {

struct ExecutorOptions;
struct ExecutorParts;
struct ExecutorTimes;

/// One rank's way to run forwards: operation by operation (RankExecutor), or as recorded once
/// (ReplayExecutor). Both give the same bits. Contracts are those of RankExecutor.
class ForwardRunner {
 public:
  virtual ~ForwardRunner() = default;

  virtual Status forward(Forward number, std::span<float> states, std::span<const float> bias,
                         const RoutingTable& table) = 0;
  virtual void enter_view(std::uint32_t number) noexcept = 0;
  virtual Result<bool> has_let_go() = 0;
  [[nodiscard]] virtual std::span<const std::int64_t> rows(LayerId layer) const noexcept = 0;
  [[nodiscard]] virtual const ExecutorTimes& times() const noexcept = 0;
  /// Empty where nothing is replayed.
  [[nodiscard]] virtual ReplayReport replays() const { return {}; }
};

/// @return the error of `check_parts`.
[[nodiscard]] Result<std::unique_ptr<ForwardRunner>> make_forward_runner(bool replays_graphs,
                                                                         const ExecutorOptions& options,
                                                                         const ExecutorParts& parts);

}  // namespace trimtab::moe
