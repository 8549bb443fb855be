// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/core/result.hpp>
#include <trimtab/route/routing_table.hpp>
#include <trimtab/route/table_buffer.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "moe/executor.hpp"
#include "moe/forward_runner.hpp"
#include "moe/replay/recorded_forward.hpp"
#include "moe/replay/replay_memory.hpp"
#include "moe/replay/replay_report.hpp"

namespace trimtab::moe {

/// RankExecutor as engines with captured graphs have it: forwards are recorded once, when it is made, for 1,
/// 2, 4, … tokens and the largest number, and replayed from then on. Each forward takes the smallest that
/// fits; the rows it has too many are padding, which is never routed or counted. Messages between ranks have
/// one size, so all ranks must have the same ExecutorOptions::max_tokens.
///
/// Replays read weights where they lay when it was made, and tables in a buffer of its own. Outputs are those
/// of RankExecutor, bit for bit, but which replica takes an assignment differs. Threads as there.
class ReplayExecutor final : public ForwardRunner {
 public:
  /// @return the error of `check_parts`.
  static Result<std::unique_ptr<ReplayExecutor>> make(const ExecutorOptions& options,
                                                      const ExecutorParts& parts);

  /// As RankExecutor::forward. A table that is not in the buffer yet is first written there: between two
  /// forwards of this rank nobody reads it.
  /// @return also `version_mismatch` naming both when `table` is older than what is in the buffer; `corrupt`
  ///         when that is torn or damaged, before or after the replay.
  Status forward(Forward number, std::span<float> states, std::span<const float> bias,
                 const RoutingTable& table) override;
  void enter_view(std::uint32_t number) noexcept override;
  Result<bool> has_let_go() override { return all_to_all_.has_let_go(); }
  [[nodiscard]] std::span<const std::int64_t> rows(LayerId layer) const noexcept override;
  [[nodiscard]] const ExecutorTimes& times() const noexcept override { return times_; }

  [[nodiscard]] ReplayReport replays() const override { return report_; }

  [[nodiscard]] const ReplayReport& report() const noexcept { return report_; }
  [[nodiscard]] std::span<const RecordedForward> recorded() const noexcept { return recorded_; }
  /// The buffer that replays read, as an engine's other code could reach it.
  [[nodiscard]] std::span<std::byte> table_memory() noexcept { return memory_.table(); }

 private:
  ReplayExecutor(const ExecutorOptions& options, const ExecutorParts& parts);

  Status record();
  Status run(std::span<float> states, std::span<const float> bias, const RoutingTable& table);
  Status publish(const RoutingTable& table);
  [[nodiscard]] Status check_table(TableIdentity expected) const;
  [[nodiscard]] const RecordedForward& smallest_for(std::size_t tokens) const noexcept;

  ExecutorOptions options_;
  ExecutorParts parts_;
  ReplayMemory memory_;
  std::optional<TableBuffer> table_;  ///< Writes it.
  GateStage gate_;
  ExpertKernel kernel_;
  ExpertBuffer scratch_;
  AllToAll all_to_all_;
  std::vector<RecordedForward> recorded_;  ///< By size, ascending.
  ExecutorTimes times_;
  ReplayReport report_;
};

}  // namespace trimtab::moe
