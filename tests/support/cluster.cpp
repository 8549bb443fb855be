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
      for (std::size_t t = 0; expert != no_expert && t < store_.tensors(layer).size(); ++t) {
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

Cluster::Cluster(Topology topology, const Placement& placement, EngineOptions options, const Wrap& wrap,
                 const std::optional<HeartbeatOptions>& heartbeat, const SourceOf& source_of)
    : topology_(std::move(topology)), options_(options) {
  auto channels = make_inproc_transports(topology_.num_ranks());
  auto beats = make_inproc_transports(topology_.num_ranks());
  TRIMTAB_ASSERT(channels.has_value() && beats.has_value());
  for (Rank rank : ids<Rank>(topology_.num_ranks())) {
    auto channel = std::move((*channels)[rank.index()]);
    if (wrap) channel = wrap(rank, std::move(channel));
    make_rank(rank, placement, std::move(channel), std::move((*beats)[rank.index()]), heartbeat,
              source_of ? source_of(rank) : options_.source);
  }
  served_.resize(ranks_.size());
  errors_.resize(ranks_.size());
}

void Cluster::make_rank(Rank rank, const Placement& placement, std::unique_ptr<Transport> channel,
                        std::unique_ptr<Transport> beats, const std::optional<HeartbeatOptions>& heartbeat,
                        ExpertSource* source) {
  auto table = RoutingTable::compile(placement, topology_, {Epoch{0}, 0});
  TRIMTAB_ASSERT(table.has_value());
  auto state =
      std::make_unique<RankState>(placement.num_layers(), topology_.slots_of(rank), std::move(*table));
  state->weights.fill(placement);
  EngineOptions options = options_;
  options.source = source;
  if (heartbeat) {
    auto made = Heartbeat::make(*heartbeat, std::move(beats), clock_);
    TRIMTAB_ASSERT(made.has_value());
    state->heartbeat = std::move(*made);
    options.liveness = state->heartbeat.get();
  }
  auto engine = Engine::make(options, std::move(channel), state->weights.store(), state->publisher, topology_,
                             placement, clock_);
  TRIMTAB_ASSERT(engine.has_value());
  state->engine = std::move(*engine);
  ranks_.push_back(std::move(state));
}

Program Cluster::make_program(const Placement& to) const {
  const auto lives = [](const auto& rank) { return rank->engine && !rank->has_left; };
  const Engine& engine = *(*std::ranges::find_if(ranks_, lives))->engine;
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

void Cluster::begin_tick(std::size_t num_ranks) {
  for (std::size_t r = 0; r < num_ranks; ++r) {
    if (serves(r) && !ranks_[r]->is_stopped) drive(r);
  }
}

void Cluster::tick() {
  begin_tick(ranks_.size());
  for (const auto& rank : ranks_) {
    if (!rank->engine || rank->is_stopped || !rank->lease || !is_finished(*rank)) continue;
    rank->lease.reset();
    rank->next = rank->next.next();
  }
}

void Cluster::drive(std::size_t r) {
  RankState& rank = *ranks_[r];
  const auto leave = [&](const Error& error) {
    errors_[r] = error.message;
    rank.has_left = true;
    rank.lease.reset();
  };
  constexpr auto budget = std::chrono::milliseconds(1);
  if (rank.heartbeat) TRIMTAB_ASSERT(rank.heartbeat->beat().has_value());
  if (rank.lease) {
    const Status progressed = rank.engine->progress(budget);
    if (progressed) return;
    if (progressed.error().code != Errc::cancelled) return leave(progressed.error());
    rank.lease.reset();
  }
  const Result<Admission> admission = rank.engine->advance(rank.next, budget);
  if (!admission) return leave(admission.error());
  if (*admission == Admission::renew) rank.next = rank.engine->view().resume;
  if (*admission != Admission::go) return;
  rank.lease.emplace(rank.reader.acquire());
  served_[r].resize(rank.next.value() + 1);
  served_[r].back() = (*rank.lease)->identity().epoch;
  begun_[{rank.engine->view().number, rank.next}].insert(r);
}

bool Cluster::is_finished(const RankState& rank) const {
  const View& view = rank.engine->view();
  const auto& begun = begun_.at({view.number, rank.next});
  return std::ranges::all_of(view.members, [&](Rank member) {
    return ranks_[member.index()]->has_left || begun.contains(member.index());
  });
}

void Cluster::kill(std::size_t rank) {
  ranks_[rank]->lease.reset();
  ranks_[rank]->engine.reset();
  ranks_[rank]->heartbeat.reset();
}

bool Cluster::run_until_idle(Clock::duration per_tick, int max_ticks) {
  const auto are_idle = [this] {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const RankState& rank = *ranks_[r];
      const bool is_out = !rank.engine || rank.is_stopped || (rank.heartbeat && rank.has_left);
      if (!is_out && !rank.engine->is_idle()) return false;
    }
    return true;
  };
  for (int i = 0; i < max_ticks; ++i) {
    if (are_idle()) return true;
    tick();
    clock_.advance(per_tick);
  }
  return are_idle();
}

std::string Cluster::find_difference(const Placement& placement) const {
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    if (!ranks_[r]->engine) continue;
    const std::string difference = ranks_[r]->weights.find_difference(placement);
    if (!difference.empty()) return fmt::format("rank {}: {}", r, difference);
  }
  return "";
}

}  // namespace trimtab::test
