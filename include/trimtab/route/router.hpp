// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/executor.hpp>
#include <trimtab/core/ids.hpp>
#include <trimtab/core/model_role.hpp>
#include <trimtab/core/result.hpp>
#include <trimtab/route/dispatch_mode.hpp>
#include <trimtab/route/routing_table.hpp>

#include <cstdint>
#include <memory>
#include <span>

namespace trimtab {

struct RouterOptions {
  DispatchMode mode = DispatchMode::quota;
  ModelRole model = ModelRole::target;  ///< Tables of another model are refused.
};

/// One layer's share of a batch: how the ids lie in their buffer, and what the modes need to know.
struct Batch {
  /// Routed experts per token: the columns that are dispatched.
  std::int32_t top_k = 1;
  /// Ids from one row to the next, at least top_k; 0 means top_k. Columns from top_k on, those of fused
  /// shared experts, are neither read nor written.
  std::int64_t row_stride = 0;
  /// Rows from here on are padding: never read, and written as `no_slot`. -1: every row is valid.
  std::int64_t num_valid_tokens = -1;
  /// Index of row 0 among all tokens that the ranks agree on. Mode `rank_invariant` alone looks at it.
  std::uint64_t first_token = 0;
  /// Mode `exact_batch` alone: how many assignments of this batch each slot takes, [slots].
  std::span<const std::int64_t> assignments = {};
  /// Runs large batches in pieces; small ones, and all without one, run on the calling thread. The result is
  /// the same.
  Executor* executor = nullptr;
};

/// Turns logical expert ids into physical slots, once (R1).
///
/// `no_expert` stays `no_slot` (R2). Every id is checked before anything is written: on an error no output,
/// no buffer and no state has changed. Buffers of ids and of slots are the same memory or do not overlap.
/// Modes that keep state keep it per layer and per table: counting starts anew with another table. A batch of
/// no tokens is fine and changes nothing.
///
/// Errors of every dispatch: `invalid_argument` naming layer, token, column, value and limit for an id that
/// is neither -1 nor an expert; likewise for a layer that the table does not have, for sizes that do not
/// agree, and for a table of another model or shape. Mode `exact_batch`: also naming layer, expert and both
/// numbers when `assignments` do not sum to what the batch has for it, or layer and slot when a slot that
/// serves nothing is to take some.
///
/// Threads: one Router per forward thread. Independent of other Routers. Allocates when a layer is first
/// dispatched, and for a table of more slots than before; otherwise nothing.
class Router {
 public:
  /// Both counts are those of the tables to come, and at least 1.
  Router(std::int32_t num_layers, std::int32_t num_experts, Rank rank, RouterOptions options = {});
  Router(Router&&) noexcept;
  Router& operator=(Router&&) noexcept;
  ~Router();

  /// Fills `slots[i]` for each `experts[i]`. Sizes are a multiple of the row stride, and equal.
  Status dispatch(const RoutingTable& table, LayerId layer, std::span<const ExpertId> experts,
                  std::span<SlotId> slots, const Batch& batch = {});

  /// The same in place.
  /// @return the buffer as what it now holds. `experts` must not be used again: it has no more experts in it.
  Result<std::span<SlotId>> dispatch_in_place(const RoutingTable& table, LayerId layer,
                                              std::span<ExpertId> experts, const Batch& batch = {});

  /// The same for an engine's own numbers. The types cannot tell an expert from a slot here: that ids are
  /// mapped once is up to the caller. In place when both spans are the same memory.
  /// @return as above; with 16 bits also `invalid_argument` when the table has slots above 32767.
  Status dispatch_raw(const RoutingTable& table, LayerId layer, std::span<const std::int32_t> experts,
                      std::span<std::int32_t> slots, const Batch& batch = {});
  Status dispatch_raw(const RoutingTable& table, LayerId layer, std::span<const std::int16_t> experts,
                      std::span<std::int16_t> slots, const Batch& batch = {});

  [[nodiscard]] const RouterOptions& options() const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trimtab
