// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/assert.hpp>
#include <trimtab/record/recorder.hpp>

#include "slot_counts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace trimtab {
namespace {

constexpr std::size_t num_contexts = 4;

/// Accepts `no_slot`. The first pass has no early exit and sums words, so that it is vectorised.
Status check_slots(LayerId layer, std::span<const SlotId> slots, std::int32_t num_slots) {
  const auto is_bad = [limit = static_cast<std::uint32_t>(num_slots)](SlotId slot) {
    return static_cast<std::uint32_t>(slot.value()) + 1U > limit;
  };
  std::uint32_t any_bad = 0;
  for (SlotId slot : slots) any_bad |= static_cast<std::uint32_t>(is_bad(slot));
  if (any_bad == 0) return {};
  const auto bad = std::find_if(slots.begin(), slots.end(), is_bad);
  return failure(Errc::invalid_argument,
                 fmt::format("layer {}, index {}: slot {} is not in 0..{}", layer.value(),
                             bad - slots.begin(), bad->value(), num_slots - 1));
}

}  // namespace

Recorder::Recorder(std::int32_t num_layers, std::int32_t num_slots, std::int32_t top_k)
    : num_layers_(num_layers), num_slots_(num_slots), top_k_(top_k), contexts_(num_contexts) {
  TRIMTAB_ASSERT(num_layers >= 1 && num_slots >= 1 && top_k >= 1);
  // Each context can hold a committed and a pending window without allocating.
  for (Context& context : contexts_) {
    context.committed.reserve(1);
    context.pending.reserve(1);
    spare_.push_back(make_zero(num_layers_, num_slots_));
    spare_.push_back(make_zero(num_layers_, num_slots_));
  }
}

Recorder::Context& Recorder::context(RecordContext context) noexcept {
  return contexts_[2 * static_cast<std::size_t>(context.model) + static_cast<std::size_t>(context.phase)];
}

Status Recorder::check(const Context& context, Epoch epoch, LayerId layer, std::size_t num_slots,
                       std::int64_t num_valid_tokens) const {
  if (!ids<LayerId>(num_layers_).contains(layer)) {
    return failure(Errc::invalid_argument,
                   fmt::format("layer {} is not in 0..{}", layer.value(), num_layers_ - 1));
  }
  const auto top_k = static_cast<std::size_t>(top_k_);
  if (num_slots % top_k != 0) {
    return failure(Errc::invalid_argument, fmt::format("layer {}: {} slots are no multiple of top-k {}",
                                                       layer.value(), num_slots, top_k));
  }
  const auto num_rows = static_cast<std::int64_t>(num_slots / top_k);
  if (num_valid_tokens < 0 || num_valid_tokens > num_rows) {
    return failure(Errc::invalid_argument,
                   fmt::format("layer {}: {} valid tokens are not in 0..{} (the rows)", layer.value(),
                               num_valid_tokens, num_rows));
  }
  const Epoch newest = context.pending.empty() ? context.newest : context.pending.back().epoch;
  if (epoch < newest) {
    return failure(Errc::version_mismatch, fmt::format("layer {}: epoch {} is older than recorded epoch {}",
                                                       layer.value(), epoch.value(), newest.value()));
  }
  return {};
}

SlotCounts Recorder::make_window(Epoch epoch) {
  SlotCounts window;
  if (spare_.empty()) {
    window = make_zero(num_layers_, num_slots_);
  } else {
    window = std::move(spare_.back());
    spare_.pop_back();
  }
  window.epoch = epoch;
  return window;
}

Status Recorder::record(RecordContext context, Epoch epoch, LayerId layer, std::span<const SlotId> slots,
                        std::int64_t num_valid_tokens) {
  Context& to = this->context(context);
  if (Status checked = check(to, epoch, layer, slots.size(), num_valid_tokens); !checked) return checked;
  const auto valid =
      slots.first(static_cast<std::size_t>(num_valid_tokens) * static_cast<std::size_t>(top_k_));
  if (Status checked = check_slots(layer, valid, num_slots_); !checked) return checked;
  if (to.pending.empty() || to.pending.back().epoch != epoch) to.pending.push_back(make_window(epoch));
  SlotCounts& window = to.pending.back();
  const auto width = static_cast<std::size_t>(num_slots_);
  const auto counts = std::span(window.counts).subspan(layer.index() * width, width);
  for (SlotId slot : valid) {
    if (slot != no_slot) ++counts[slot.index()];
  }
  window.expected[layer.index()] += static_cast<std::int64_t>(valid.size());
  return {};
}

void Recorder::abandon_forward() noexcept {
  for (Context& context : contexts_) context.pending.clear();
}

void Recorder::commit_forward() {
  for (Context& context : contexts_) {
    for (SlotCounts& pending : context.pending) commit(context, std::move(pending));
    context.pending.clear();
  }
}

void Recorder::commit(Context& context, SlotCounts&& pending) {
  context.newest = pending.epoch;
  if (context.committed.empty() || context.committed.back().epoch != pending.epoch) {
    context.committed.push_back(std::move(pending));
    return;
  }
  drain_into(context.committed.back(), pending);
  spare_.push_back(std::move(pending));
}

std::vector<SlotCounts> Recorder::take_window(RecordContext context) {
  return std::exchange(this->context(context).committed, {});
}

}  // namespace trimtab
