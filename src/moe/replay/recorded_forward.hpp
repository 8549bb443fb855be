// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/clock.hpp>
#include <trimtab/core/ids.hpp>
#include <trimtab/core/result.hpp>

#include <cstddef>
#include <span>
#include <vector>

#include "moe/executor.hpp"
#include "moe/replay/operations.hpp"
#include "moe/replay/replay_memory.hpp"

namespace trimtab::moe {

/// What a forward is recorded with. All borrowed, all to stay where they are.
struct Recording {
  const ExecutorOptions& options;
  const ExecutorParts& parts;
  ReplayMemory& memory;
  GateStage& gate;
  ExpertKernel& kernel;
  ExpertBuffer& scratch;
  AllToAll& all_to_all;
};

/// A forward of a fixed number of tokens as a list of operations over addresses (docs/design/0021).
///
/// It stands for a captured graph: whatever is to reach it must be written to the memory it was recorded
/// with. Nobody tells it of other memory, and it could not look there.
class RecordedForward {
 public:
  /// Records; runs nothing. `tokens` is the padded number, at most that of `with.memory`.
  RecordedForward(const Recording& with, std::size_t tokens);

  /// Runs the operations in order, with what ReplayMemory holds now. Adds to `times`.
  /// @return the first error of an operation; states are unspecified then.
  Status replay(ExecutorTimes& times, const Clock& clock) const;

  [[nodiscard]] std::size_t tokens() const noexcept { return tokens_; }
  [[nodiscard]] std::span<const replay::Operation> operations() const noexcept { return operations_; }

 private:
  void record_layer(const Recording& with, LayerId layer);
  void record_gate(const Recording& with, LayerId layer);
  void record_route(const Recording& with, LayerId layer);
  void record_rows(const Recording& with, const replay::KeySource& source);
  void record_experts(const Recording& with, const replay::KeySource& source);
  void record_answers(const Recording& with, const replay::KeySource& source);

  std::size_t tokens_;
  std::vector<replay::Operation> operations_;
};

}  // namespace trimtab::moe
