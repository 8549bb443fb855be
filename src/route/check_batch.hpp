// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/route/router.hpp>

#include "route/id_rows.hpp"

#include <cstdint>
#include <span>

namespace trimtab {

/// What a Router was made for.
struct RouterShape {
  std::int32_t num_layers = 0;
  std::int32_t num_experts = 0;
  Rank rank;
  RouterOptions options;
};

/// Whether the Router may use this table, and the table has the layer.
[[nodiscard]] Status check_table(const RoutingTable& table, LayerId layer, const RouterShape& router);

/// Sizes of buffers and of what the batch says of them. Of ids it looks at none.
struct BatchSizes {
  std::size_t num_experts = 0;  ///< Ids in the buffer that is read,
  std::size_t num_slots = 0;    ///< and in the one that is written.
  std::int64_t largest_id = 0;  ///< That its numbers can hold.
};
[[nodiscard]] Status check_batch(const RoutingTable& table, LayerId layer, DispatchMode mode,
                                 const Batch& batch, const BatchSizes& sizes);

/// Names the first id that is neither -1 nor an expert; there must be one.
template <class Id>
[[nodiscard]] Error first_bad_id(LayerId layer, const IdRows<Id>& rows, std::int32_t num_experts);

/// Checks that what the slots of each expert are to take is what the batch has for it. `counts` is
/// [1 + experts]: padding, then by expert.
[[nodiscard]] Status check_assignments(const RoutingTable& table, LayerId layer,
                                       std::span<const std::int64_t> assignments,
                                       std::span<const std::int64_t> counts);

}  // namespace trimtab
