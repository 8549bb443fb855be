// SPDX-License-Identifier: Apache-2.0
#include "support/cluster.hpp"

#include "verify/expert_values.hpp"

#include <trimtab/core/assert.hpp>
#include <trimtab/transport/inproc.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace trimtab::test {
namespace {

struct TensorShape {
  const char* name;
  ElementType type;
  std::size_t bytes;
};

constexpr TensorShape bundle[] = {
    {"w13", ElementType::int8, 96},         {"w13_scale", ElementType::float32, 16},
    {"w13_offset", ElementType::int32, 16}, {"w2", ElementType::int8, 48},
    {"w2_scale", ElementType::float32, 8},  {"w2_offset", ElementType::int32, 8},
};
constexpr std::size_t guard_bytes = 8;
constexpr std::byte guard_value{0xa5};

/// Bytes of one tensor over all slots, guards before, between and after.
std::size_t extent(const TensorShape& shape, std::size_t num_slots) {
  return guard_bytes + num_slots * (shape.bytes + guard_bytes);
}

std::size_t layer_extent(std::size_t num_slots) {
  std::size_t sum = 0;
  for (const TensorShape& shape : bundle) sum += extent(shape, num_slots);
  return sum;
}

}  // namespace

GuardedWeights::GuardedWeights(std::int32_t num_layers, IdRange<SlotId> slots)
    : memory_(static_cast<std::size_t>(num_layers) * layer_extent(slots.size()), guard_value),
      store_(num_layers, slots) {
  std::byte* at = memory_.data();
  for (LayerId layer : ids<LayerId>(num_layers)) {
    std::vector<TensorSpec> tensors;
    for (const TensorShape& shape : bundle) {
      tensors.push_back({.name = shape.name,
                         .type = shape.type,
                         .base = at + guard_bytes,
                         .num_slots = static_cast<std::int32_t>(slots.size()),
                         .slot_bytes = shape.bytes,
                         .stride_bytes = shape.bytes + guard_bytes});
      at += extent(shape, slots.size());
    }
    const Status registered = store_.register_layer(layer, tensors);
    TRIMTAB_ASSERT(registered.has_value());
  }
}

void GuardedWeights::fill(const Placement& placement) {
  for (LayerId layer : ids<LayerId>(placement.num_layers())) {
    for (SlotId slot : store_.slots()) {
      const ExpertId expert = placement.expert_at(layer, slot);
      for (std::size_t t = 0; t < store_.tensors(layer).size(); ++t) {
        const auto bytes = store_.tensor_slot(layer, t, slot);
        verify::fill_expert(layer, expert, t, bytes);
      }
    }
  }
}

std::string GuardedWeights::find_difference(const Placement& placement) const {
  std::vector<std::byte> expected = memory_;
  std::ranges::fill(expected, guard_value);
  for (LayerId layer : ids<LayerId>(placement.num_layers())) {
    for (SlotId slot : store_.slots()) {
      const ExpertId expert = placement.expert_at(layer, slot);
      for (std::size_t t = 0; t < store_.tensors(layer).size(); ++t) {
        const auto bytes = store_.tensor_slot(layer, t, slot);
        const auto offset = static_cast<std::size_t>(bytes.data() - memory_.data());
        for (std::size_t i = 0; i < bytes.size(); ++i) {
          // A vacant slot may hold anything: nobody reads it.
          expected[offset + i] = expert == no_expert ? bytes[i] : verify::expert_byte(layer, expert, t, i);
          if (expected[offset + i] == bytes[i]) continue;
          return fmt::format("layer {}, slot {} (expert {}), tensor {}, byte {}", layer.value(), slot.value(),
                             expert.value(), t, i);
        }
      }
    }
  }
  const auto [at, unused] = std::ranges::mismatch(memory_, expected);
  return at == memory_.end() ? "" : fmt::format("guard byte {}", at - memory_.begin());
}

Cluster::Cluster(Topology topology, const Placement& placement, EngineOptions options, const Wrap& wrap)
    : topology_(std::move(topology)), options_(options) {
  auto channels = make_inproc_transports(topology_.num_ranks());
  TRIMTAB_ASSERT(channels.has_value());
  for (Rank rank : ids<Rank>(topology_.num_ranks())) {
    auto table = RoutingTable::compile(placement, topology_, {Epoch{0}, 0});
    TRIMTAB_ASSERT(table.has_value());
    auto state =
        std::make_unique<RankState>(placement.num_layers(), topology_.slots_of(rank), std::move(*table));
    state->weights.fill(placement);
    auto channel = std::move((*channels)[rank.index()]);
    if (wrap) channel = wrap(rank, std::move(channel));
    auto engine = Engine::make(options_, std::move(channel), state->weights.store(), state->publisher,
                               topology_, placement, clock_);
    TRIMTAB_ASSERT(engine.has_value());
    state->engine = std::move(*engine);
    ranks_.push_back(std::move(state));
  }
  served_.resize(ranks_.size());
  errors_.resize(ranks_.size());
}

Program Cluster::make_program(const Placement& to) const {
  const Engine& engine = *ranks_.front()->engine;
  std::vector<std::size_t> bundle_bytes;
  for (LayerId layer : ids<LayerId>(to.num_layers())) {
    bundle_bytes.push_back(ranks_.front()->weights.store().bundle_bytes(layer));
  }
  auto program = build_program({.epoch = engine.health().epoch,
                                .from = engine.placement(),
                                .to = to,
                                .topology = topology_,
                                .bundle_bytes = bundle_bytes,
                                .staging_budget_bytes = options_.staging_budget_bytes});
  TRIMTAB_ASSERT(program.has_value());
  return std::move(*program);
}

void Cluster::begin(const Placement& to) {
  const Program program = make_program(to);
  for (auto& rank : ranks_) {
    const Status begun = rank->engine->begin(program);
    TRIMTAB_ASSERT(begun.has_value());
  }
}

void Cluster::tick() {
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    RankState& rank = *ranks_[r];
    if (rank.has_stopped) continue;
    const auto stop = [&](const Error& error) {
      errors_[r] = error.message;
      rank.has_stopped = true;
      rank.lease.reset();
    };
    constexpr auto budget = std::chrono::milliseconds(1);
    if (rank.lease) {
      if (Status progressed = rank.engine->progress(budget); !progressed) stop(progressed.error());
      continue;
    }
    const Result<Admission> admission = rank.engine->advance(next_, budget);
    if (!admission) {
      stop(admission.error());
    } else if (*admission == Admission::go) {
      rank.lease.emplace(rank.reader.acquire());
      served_[r].push_back((*rank.lease)->identity().epoch);
    }
  }
  const auto has_begun = [](const auto& rank) { return rank->has_stopped || rank->lease; };
  if (!std::ranges::all_of(ranks_, has_begun)) return;
  for (auto& rank : ranks_) rank->lease.reset();
  next_ = next_.next();
}

bool Cluster::run_until_idle(Clock::duration per_tick, int max_ticks) {
  const auto is_idle = [](const auto& rank) { return rank->engine->is_idle(); };
  for (int i = 0; i < max_ticks; ++i) {
    if (std::ranges::all_of(ranks_, is_idle)) return true;
    tick();
    clock_.advance(per_tick);
  }
  return std::ranges::all_of(ranks_, is_idle);
}

std::string Cluster::find_difference(const Placement& placement) const {
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    const std::string difference = ranks_[r]->weights.find_difference(placement);
    if (!difference.empty()) return fmt::format("rank {}: {}", r, difference);
  }
  return "";
}

}  // namespace trimtab::test
