// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/core/result.hpp>
#include <trimtab/route/routing_table.hpp>

#include <cstdint>
#include <span>

namespace trimtab::moe {

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
};

}  // namespace trimtab::moe
