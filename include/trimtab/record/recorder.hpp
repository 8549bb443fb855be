// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/core/model_role.hpp>
#include <trimtab/core/placement.hpp>
#include <trimtab/core/result.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace trimtab {

enum class Phase : std::uint8_t { prefill, decode };

/// What is counted apart: a draft model never counts into its target, nor decode into prefill.
struct RecordContext {
  ModelRole model = ModelRole::target;
  Phase phase = Phase::prefill;

  friend bool operator==(const RecordContext&, const RecordContext&) = default;
};

/// Assignments counted per physical slot under one epoch, and how many there must be in each layer.
struct SlotCounts {
  Epoch epoch;
  std::int32_t num_layers = 0;
  std::int32_t num_slots = 0;
  std::vector<std::int64_t> counts;    ///< [layers][slots]
  std::vector<std::int64_t> expected;  ///< [layers]: valid tokens times top-k, as announced by the caller.
};

/// The same by logical expert.
struct ExpertCounts {
  std::int32_t num_layers = 0;
  std::int32_t num_experts = 0;
  std::vector<std::int64_t> counts;  ///< [layers][experts]
};

/// Counts routed assignments on one rank: 64 bit, per context, tagged with the epoch of the table they were
/// routed by.
///
/// Counts what was dispatched, so it sees replicas as they are used; shared experts have no slot and are not
/// seen. Threads: one Recorder per forward thread. Memory is fixed at construction but for one window per
/// epoch change and per window taken, and steady counting allocates nothing.
class Recorder {
 public:
  /// `num_layers` and `num_slots` are those of the placement; `top_k` the routed experts per token. All at
  /// least 1.
  Recorder(std::int32_t num_layers, std::int32_t num_slots, std::int32_t top_k);

  /// Counts one layer of one batch. `slots` is [tokens][top_k] as dispatched; `no_slot` (padding) is not
  /// counted; rows from `num_valid_tokens` on are not even looked at.
  /// @return `invalid_argument` naming layer, index, value and limit for a layer or slot out of range, a
  ///         length that is no multiple of top_k, or more valid tokens than rows; `version_mismatch` for an
  ///         epoch older than one already recorded in this context (in a taken window too; abandoned forwards
  ///         do not matter). Nothing is counted then.
  Status record(RecordContext context, Epoch epoch, LayerId layer, std::span<const SlotId> slots,
                std::int64_t num_valid_tokens);

  /// Drops what the current forward added: the batch was abandoned. Effective since the last
  /// `commit_forward`.
  void abandon_forward() noexcept;
  /// Makes what was recorded since the last call part of the window.
  void commit_forward();

  /// Takes the window of a context: one entry per epoch it spans, oldest first, and begins a new, empty one.
  /// Only committed forwards.
  [[nodiscard]] std::vector<SlotCounts> take_window(RecordContext context);

 private:
  struct Context {
    std::vector<SlotCounts> committed;
    std::vector<SlotCounts> pending;  ///< Of the current forward.
    Epoch newest;                     ///< Of what was ever committed.
  };

  [[nodiscard]] Context& context(RecordContext context) noexcept;
  [[nodiscard]] Status check(const Context& context, Epoch epoch, LayerId layer, std::size_t num_slots,
                             std::int64_t num_valid_tokens) const;
  [[nodiscard]] SlotCounts make_window(Epoch epoch);
  void commit(Context& context, SlotCounts&& pending);

  std::int32_t num_layers_;
  std::int32_t num_slots_;
  std::int32_t top_k_;
  std::vector<Context> contexts_;
  std::vector<SlotCounts> spare_;  ///< All zero; used again instead of allocating.
};

/// Folds slot counts to experts with the placement they were counted under, and checks that no count was lost
/// or invented (R5).
/// @return `invalid_argument` when shapes differ or a vacant slot was counted; `corrupt` naming layer, slot
/// and
///         count when a count is negative, or layer, sum and expectation when the sum of a layer is not valid
///         tokens times top-k: the window is refused whole.
[[nodiscard]] Result<ExpertCounts> fold_counts(const SlotCounts& window, const Placement& placement);

}  // namespace trimtab
