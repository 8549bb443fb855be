// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/core/result.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "moe/config.hpp"
#include "moe/dispatch.hpp"
#include "moe/expert_buffer.hpp"
#include "moe/expert_kernel.hpp"
#include "moe/expert_memory.hpp"

namespace trimtab::moe {

/// Runs received rows through the experts in this rank's slots, slot by slot. Reuses its memory, which grows
/// to the largest batch seen.
class ExpertStage {
 public:
  /// Borrows `memory`.
  ExpertStage(const ModelConfig& config, const ExpertMemory& memory);

  /// Fills the answers of `senders`, and `num_rows` with the rows each local slot got.
  Status run(LayerId layer, std::span<const ReceivedRows> senders, std::span<std::int64_t> num_rows);

 private:
  void group(std::span<const ReceivedRows> senders, std::span<std::int64_t> num_rows);
  void place(const ReceivedRows& sender) noexcept;

  const ExpertMemory& memory_;
  ExpertBuffer scratch_;  ///< Of matrices that do not lie as the GEMM takes them.
  std::size_t hidden_;
  IdRange<SlotId> slots_;
  ExpertKernel kernel_;
  std::vector<std::size_t> next_;  ///< [local slots]: where the next row of each is placed.
  std::vector<std::int8_t> values_;
  std::vector<RowScale> scales_;
  std::vector<float*> answers_;
};

}  // namespace trimtab::moe
