// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/assert.hpp>
#include <trimtab/route/router.hpp>

#include "route/check_batch.hpp"
#include "route/check_ids.hpp"
#include "route/dispatch_loops.hpp"
#include "route/nearest.hpp"
#include "route/phase_table.hpp"
#include "route/quota_layer.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

namespace trimtab {
namespace {

/// Below this a piece is done sooner than another thread is woken and the state copied for it.
constexpr std::size_t min_ids_in_piece = 65536;
constexpr std::size_t max_pieces = 32;

}  // namespace

class Router::Impl {
 public:
  Impl(std::int32_t num_layers, std::int32_t num_experts, Rank rank, RouterOptions options)
      : num_experts_(num_experts), rank_(rank), options_(options) {
    TRIMTAB_ASSERT(num_layers >= 1 && num_experts >= 1);
    layers_.resize(static_cast<std::size_t>(num_layers));
    pieces_.resize(1);
  }

  [[nodiscard]] const RouterOptions& options() const noexcept { return options_; }

  template <class Id>
  Status dispatch(const RoutingTable& table, LayerId layer, std::span<const Id> in, std::span<Id> out,
                  const Batch& batch);

 private:
  /// What one mode needs of one layer under one table.
  struct Layer {
    bool is_ready = false;
    std::uint64_t fingerprint = 0;  ///< Of the table.
    QuotaLayer quota;
    PhaseTable phases;
    std::vector<std::int32_t> nearest;  ///< [1 + experts]: padding, then the slot of each expert.
  };
  /// Consecutive rows that one thread dispatches.
  struct Piece {
    QuotaLayer quota;                  ///< As the rows before leave it.
    std::vector<std::int64_t> counts;  ///< [1 + experts]: padding, then assignments in these rows.
    bool is_sound = false;
  };

  void cut(std::size_t num_ids, std::size_t num_rows, const Batch& batch);
  void prepare(const RoutingTable& table, LayerId layer, const Batch& batch);
  void fill_nearest(const RoutingTable& table, LayerId layer, std::vector<std::int32_t>& slots) const;
  template <class Work>
  void for_each_piece(const Batch& batch, Work work);
  template <class Id>
  [[nodiscard]] IdRows<Id> rows_of(const IdRows<Id>& rows, std::size_t piece) const noexcept;
  template <class Id>
  Status check_ids(LayerId layer, const IdRows<Id>& rows, const Batch& batch);
  template <class Id>
  void count(const IdRows<Id>& rows, const Batch& batch);
  template <class Id>
  Status count_and_check(const RoutingTable& table, LayerId layer, const IdRows<Id>& rows,
                         const Batch& batch);
  template <class Id>
  void run(const RoutingTable& table, LayerId layer, const IdRows<Id>& rows, const Batch& batch);
  template <class Id>
  void run_quota(const RoutingTable& table, const IdRows<Id>& rows, const Batch& batch, QuotaLayer& start);
  void advance_to(std::size_t piece, const QuotaLayer& start, const RoutingTable& table);

  std::int32_t num_experts_;
  Rank rank_;
  RouterOptions options_;
  std::vector<Layer> layers_;
  QuotaLayer exact_;           ///< Of the batch at hand.
  std::vector<Piece> pieces_;  ///< Never shrinks; the first num_pieces_ are in use.
  std::size_t num_pieces_ = 1;
  std::vector<std::int64_t> totals_;  ///< [1 + experts]: padding, then assignments of the batch.
};

void Router::Impl::prepare(const RoutingTable& table, LayerId layer, const Batch& batch) {
  if (options_.mode == DispatchMode::exact_batch) return exact_.build(table, layer, rank_, batch.assignments);
  Layer& state = layers_[layer.index()];
  if (state.is_ready && state.fingerprint == table.fingerprint()) return;
  switch (options_.mode) {
    case DispatchMode::nearest:
      fill_nearest(table, layer, state.nearest);
      break;
    case DispatchMode::rank_invariant:
      state.phases.build(table, layer);
      break;
    case DispatchMode::quota:
      state.quota.build(table, layer, rank_);
      break;
    case DispatchMode::exact_batch:
      break;
  }
  state.fingerprint = table.fingerprint();
  state.is_ready = true;
}

void Router::Impl::fill_nearest(const RoutingTable& table, LayerId layer,
                                std::vector<std::int32_t>& slots) const {
  NearestFinder finder(table, rank_);
  slots.assign(1, no_slot.value());
  for (ExpertId expert : ids<ExpertId>(num_experts_)) slots.push_back(finder.find(layer, expert).value());
}

template <class Work>
void Router::Impl::for_each_piece(const Batch& batch, Work work) {
  if (num_pieces_ == 1) return work(std::size_t{0});
  batch.executor->for_each_index(num_pieces_, std::ref(work));
}

template <class Id>
IdRows<Id> Router::Impl::rows_of(const IdRows<Id>& rows, std::size_t piece) const noexcept {
  const std::size_t begin = rows.num_rows * piece / num_pieces_;
  const std::size_t end = rows.num_rows * (piece + 1) / num_pieces_;
  return rows.part(begin, end - begin);
}

template <class Id>
Status Router::Impl::check_ids(LayerId layer, const IdRows<Id>& rows, const Batch& batch) {
  for_each_piece(batch, [&](std::size_t piece) {
    pieces_[piece].is_sound = are_experts(rows_of(rows, piece), num_experts_);
  });
  const auto in_use = std::span(pieces_).first(num_pieces_);
  if (std::all_of(in_use.begin(), in_use.end(), [](const Piece& p) { return p.is_sound; })) return {};
  return Status(tl::unexpect, first_bad_id(layer, rows, num_experts_));
}

template <class Id>
void Router::Impl::count(const IdRows<Id>& rows, const Batch& batch) {
  for_each_piece(batch, [&](std::size_t piece) {
    auto& counts = pieces_[piece].counts;
    counts.assign(static_cast<std::size_t>(num_experts_) + 1, 0);
    for_each_run(rows_of(rows, piece), [&](const Id* in, Id* /*out*/, std::size_t n) {
      for (std::size_t i = 0; i < n; ++i) ++counts[static_cast<std::size_t>(std::int64_t{in[i]} + 1)];
    });
  });
}

void Router::Impl::advance_to(std::size_t piece, const QuotaLayer& start, const RoutingTable& table) {
  QuotaLayer& quota = pieces_[piece].quota;
  quota.reserve(table);
  quota = start;
  for (ExpertId expert : ids<ExpertId>(num_experts_)) {
    std::int64_t before = 0;
    for (std::size_t p = 0; p < piece; ++p) before += pieces_[p].counts[expert.index() + 1];
    quota.advance(expert, before);
  }
}

template <class Id>
void Router::Impl::run_quota(const RoutingTable& table, const IdRows<Id>& rows, const Batch& batch,
                             QuotaLayer& start) {
  if (num_pieces_ == 1) return dispatch_quota(rows, start);
  for_each_piece(batch, [&](std::size_t piece) {
    advance_to(piece, start, table);
    dispatch_quota(rows_of(rows, piece), pieces_[piece].quota);
  });
  std::swap(start, pieces_[num_pieces_ - 1].quota);
}

template <class Id>
void Router::Impl::run(const RoutingTable& table, LayerId layer, const IdRows<Id>& rows, const Batch& batch) {
  Layer& state = layers_[layer.index()];
  switch (options_.mode) {
    case DispatchMode::nearest:
      return for_each_piece(batch, [&](std::size_t piece) {
        dispatch_nearest(rows_of(rows, piece), state.nearest.data() + 1);
      });
    case DispatchMode::rank_invariant:
      return for_each_piece(batch, [&](std::size_t piece) {
        const std::size_t first_row = rows.num_rows * piece / num_pieces_;
        dispatch_rank_invariant(rows_of(rows, piece), table, layer, state.phases,
                                batch.first_token + first_row);
      });
    case DispatchMode::quota:
      return run_quota(table, rows, batch, state.quota);
    case DispatchMode::exact_batch:
      return run_quota(table, rows, batch, exact_);
  }
}

template <class Id>
Status Router::Impl::count_and_check(const RoutingTable& table, LayerId layer, const IdRows<Id>& rows,
                                     const Batch& batch) {
  const bool is_exact = options_.mode == DispatchMode::exact_batch;
  const bool is_cut = options_.mode == DispatchMode::quota && num_pieces_ > 1;
  if (!is_exact && !is_cut) return {};
  count(rows, batch);
  if (!is_exact) return {};
  totals_ = pieces_[0].counts;
  for (const Piece& piece : std::span(pieces_).subspan(1, num_pieces_ - 1)) {
    for (std::size_t i = 0; i < totals_.size(); ++i) totals_[i] += piece.counts[i];
  }
  return check_assignments(table, layer, batch.assignments, totals_);
}

void Router::Impl::cut(std::size_t num_ids, std::size_t num_rows, const Batch& batch) {
  const std::size_t most = batch.executor == nullptr ? 1 : std::min(max_pieces, num_rows);
  num_pieces_ = std::max<std::size_t>(1, std::min(most, num_ids / min_ids_in_piece));
  if (pieces_.size() < num_pieces_) pieces_.resize(num_pieces_);
}

template <class Id>
Status Router::Impl::dispatch(const RoutingTable& table, LayerId layer, std::span<const Id> in,
                              std::span<Id> out, const Batch& batch) {
  const RouterShape shape{static_cast<std::int32_t>(layers_.size()), num_experts_, rank_, options_};
  if (Status s = check_table(table, layer, shape); !s) return s;
  const BatchSizes sizes{in.size(), out.size(), std::numeric_limits<Id>::max()};
  if (Status s = check_batch(table, layer, options_.mode, batch, sizes); !s) return s;

  const auto width = static_cast<std::size_t>(batch.top_k);
  const std::size_t stride = batch.row_stride == 0 ? width : static_cast<std::size_t>(batch.row_stride);
  const IdRows<Id> all{in.data(), out.data(), in.size() / stride, width, stride};
  const std::size_t num_valid =
      batch.num_valid_tokens < 0 ? all.num_rows : static_cast<std::size_t>(batch.num_valid_tokens);
  const IdRows<Id> rows = all.part(0, num_valid);
  cut(rows.num_ids(), rows.num_rows, batch);
  if (Status s = check_ids(layer, rows, batch); !s) return s;
  if (Status s = count_and_check(table, layer, rows, batch); !s) return s;

  if (rows.num_rows > 0) {
    prepare(table, layer, batch);
    run(table, layer, rows, batch);
  }
  for_each_run(all.part(num_valid, all.num_rows - num_valid), [](const Id*, Id* slots, std::size_t count) {
    std::fill_n(slots, count, static_cast<Id>(no_slot.value()));
  });
  return {};
}

namespace {

/// Strong ids have the layout of their numbers.
template <class Id>
auto numbers_of(std::span<Id> ids) {
  using Number = std::conditional_t<std::is_const_v<Id>, const std::int32_t, std::int32_t>;
  static_assert(sizeof(Id) == sizeof(std::int32_t) && std::is_standard_layout_v<Id>);
  return std::span(reinterpret_cast<Number*>(ids.data()), ids.size());
}

}  // namespace

Router::Router(std::int32_t num_layers, std::int32_t num_experts, Rank rank, RouterOptions options)
    : impl_(std::make_unique<Impl>(num_layers, num_experts, rank, options)) {}
Router::Router(Router&&) noexcept = default;
Router& Router::operator=(Router&&) noexcept = default;
Router::~Router() = default;

Status Router::dispatch(const RoutingTable& table, LayerId layer, std::span<const ExpertId> experts,
                        std::span<SlotId> slots, const Batch& batch) {
  return impl_->dispatch(table, layer, numbers_of(experts), numbers_of(slots), batch);
}

Result<std::span<SlotId>> Router::dispatch_in_place(const RoutingTable& table, LayerId layer,
                                                    std::span<ExpertId> experts, const Batch& batch) {
  const std::span<std::int32_t> numbers = numbers_of(experts);
  if (Status s = impl_->dispatch<std::int32_t>(table, layer, numbers, numbers, batch); !s) {
    return failure(std::move(s));
  }
  return std::span(reinterpret_cast<SlotId*>(experts.data()), experts.size());
}

Status Router::dispatch_raw(const RoutingTable& table, LayerId layer, std::span<const std::int32_t> experts,
                            std::span<std::int32_t> slots, const Batch& batch) {
  return impl_->dispatch(table, layer, experts, slots, batch);
}

Status Router::dispatch_raw(const RoutingTable& table, LayerId layer, std::span<const std::int16_t> experts,
                            std::span<std::int16_t> slots, const Batch& batch) {
  return impl_->dispatch(table, layer, experts, slots, batch);
}

const RouterOptions& Router::options() const noexcept { return impl_->options(); }

}  // namespace trimtab
