// SPDX-License-Identifier: Apache-2.0
#include "verify/case.hpp"

#include "migrate/staging.hpp"
#include "verify/draw_deaths.hpp"
#include "verify/draw_placements.hpp"
#include "verify/random.hpp"

#include <trimtab/core/assert.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace trimtab::verify {
namespace {

/// Tiny, so that a campaign is large; of every type, with payloads that are no multiple of anything.
const BundleShape bundles[]{
    {{"w13", ElementType::int8, 6, 10},
     {"w13_scale", ElementType::float32, 1, 6},
     {"w2", ElementType::int8, 5, 7},
     {"w2_scale", ElementType::float32, 1, 5},
     {"w2_offset", ElementType::int32, 1, 5}},
    {{"w13_packed", ElementType::uint8, 3, 7},
     {"w13_blockscale", ElementType::uint8, 3, 1},
     {"w2_packed", ElementType::uint8, 3, 7},
     {"global_scale", ElementType::float32, 1, 1}},
    {{"w13", ElementType::bfloat16, 4, 12}, {"w2", ElementType::float16, 3, 8}},
    {{"w13", ElementType::int8, 17, 33}, {"w13_scale", ElementType::float32, 1, 17}},
    {{"w", ElementType::float32, 3, 9}},
    {{"w2", ElementType::float16, 16, 16}, {"w2_scale", ElementType::float32, 2, 3}},
};

/// Of several pieces, as staging cuts them.
const BundleShape large_bundle{{"w13", ElementType::int8, 300, 1031},
                               {"w13_scale", ElementType::float32, 1, 300},
                               {"w2", ElementType::float16, 96, 1031}};

/// Rarely: such a case takes as long as hundreds of others.
bool has_large_bundle(std::uint64_t seed, const CaseOptions& options, const Topology& topology) {
  constexpr std::int32_t most_ranks = 8;
  if (options.staging_budget_bytes || topology.num_ranks() > most_ranks) return false;
  return Random(~seed).one_in(500);
}

std::size_t bytes_of(const BundleShape& bundle) {
  std::size_t sum = 0;
  for (const TensorShape& tensor : bundle) sum += tensor.size_bytes();
  return sum;
}

Result<Topology> draw_topology(const CaseOptions& options, Random& random) {
  const std::int32_t num_ranks = options.ranks.value_or(random.within(2, 8));
  const std::int32_t num_nodes = options.nodes.value_or(random.within(1, std::min(3, num_ranks)));
  if (num_nodes > num_ranks) {
    return failure(Errc::invalid_argument, fmt::format("{} nodes for {} ranks", num_nodes, num_ranks));
  }
  const bool is_interleaved = random.one_in(4);
  const std::int32_t most_slots = random.within(1, 4);
  std::vector<RankInfo> ranks;
  for (std::int32_t r = 0; r < num_ranks; ++r) {
    const std::int32_t node = is_interleaved ? r % num_nodes : r * num_nodes / num_ranks;
    ranks.push_back({NodeId{node}, random.within(1, most_slots), 1.0, true});
  }
  return Topology::make(std::move(ranks));
}

Arrangement draw_arrangement(const CaseOptions& options, Random& random) {
  if (!options.layout) return random.pick(all_arrangements);
  switch (*options.layout) {
    case LayoutFamily::dense:
      return Arrangement::dense;
    case LayoutFamily::strided:
      return random.one_in(2) ? Arrangement::padded_slots : Arrangement::padded_rows;
    case LayoutFamily::nz:
      break;
  }
  return random.one_in(2) ? Arrangement::nz : Arrangement::poisoning_nz;
}

PlacementShape draw_shape(const Topology& topology, Random& random) {
  const std::int32_t num_slots = topology.num_slots();
  const std::int32_t fewest = std::max(1, num_slots / random.within(1, 3));
  return {random.within(1, 3), num_slots, random.within(fewest, num_slots)};
}

std::int32_t most_slots(const Topology& topology) {
  std::int32_t most = 0;
  for (Rank rank : ids<Rank>(topology.num_ranks())) most = std::max(most, topology.rank(rank).num_slots);
  return most;
}

/// Of the rank that has most slots.
std::size_t workspace_bytes(const Case& drawn) {
  LayoutWeights weights(
      {.layers = drawn.layers, .arrangement = drawn.arrangement, .num_fused = drawn.num_fused},
      ids<SlotId>(most_slots(drawn.topology)));
  return weights.store().workspace_bytes();
}

/// From one bundle to all that a rank can hold, the first most often.
std::size_t draw_staging(const Case& drawn, Random& random) {
  const std::size_t one = staged_bytes(std::ranges::max(drawn.bundle_bytes()));
  const auto all = drawn.layers.size() * static_cast<std::size_t>(most_slots(drawn.topology));
  return one * (random.one_in(3) ? 1 : 1 + random.below(all)) + random.below(64);
}

Result<std::size_t> staging_within(std::size_t budget, const Case& drawn) {
  const std::size_t one = staged_bytes(std::ranges::max(drawn.bundle_bytes()));
  const std::size_t workspaces = workspace_bytes(drawn);
  if (budget >= one + workspaces) return budget - workspaces;
  std::string need = fmt::format("one bundle takes {} bytes", one);
  if (workspaces > 0) need += fmt::format(" beside workspaces of {}: {}", workspaces, one + workspaces);
  return failure(Errc::infeasible,
                 fmt::format("--staging-budget {}: {} (seed {})", budget, need, drawn.seed));
}

EngineOptions draw_engine(const CaseOptions& options, Random& random) {
  EngineOptions engine;
  engine.deadline = options.deadline;
  engine.hold_forwards = random.below(4);
  engine.verify_sample = random.below(4);
  return engine;
}

Pace draw_pace(const CaseOptions& options, std::int32_t num_ranks, Random& random) {
  Pace pace;
  pace.budget = random.one_in(4) ? Clock::duration(0) : std::chrono::milliseconds(1);
  pace.skips_one_in = random.pick(std::to_array<std::size_t>({0, 0, 2, 10}));
  // Who does one thing per call, or is called half as often, must be called more often in a deadline.
  const bool is_slow = pace.budget == Clock::duration(0) || pace.skips_one_in == 2;
  pace.tick = options.deadline / (is_slow ? random.within(200, 400) : random.within(20, 60));
  // A step among hundreds of ranks may have dozens of rounds, each of which takes several calls.
  constexpr std::int32_t many_ranks = 64;
  if (is_slow && num_ranks > many_ranks) pace.tick /= 8;
  pace.max_in_flight = 1 + random.below(3);
  pace.max_batch_ticks = random.within(0, 3);
  pace.skips_forwards = random.one_in(4);
  return pace;
}

/// The coordinator is where most goes wrong.
Rank draw_rank(const Topology& topology, Random& random) {
  return random.one_in(3) ? Rank{0} : Rank{random.within(0, topology.num_ranks() - 1)};
}

void draw_message_fault(CaseFault& fault, const Case& drawn, Random& random) {
  const std::int32_t num_ranks = drawn.topology.num_ranks();
  fault.is_control = num_ranks > 1 && random.one_in(3);
  const bool may_receive =
      fault.kind == FaultKind::delay || fault.kind == FaultKind::reorder || fault.kind == FaultKind::fail;
  if (may_receive && random.one_in(4)) fault.side = Side::receive;
  if (fault.is_control) {
    fault.peer = fault.rank == Rank{0} ? Rank{random.within(1, num_ranks - 1)} : Rank{0};
    fault.occurrence = 1 + random.below(11);  // The first receive is posted when the engine is made.
    if (fault.side == Side::send) fault.occurrence -= random.below(2);
  } else {
    fault.occurrence = random.below(random.one_in(2) ? 6 : 24);
  }
  fault.code = random.pick(std::to_array({Errc::peer_lost, Errc::io, Errc::closed}));
}

CaseFault draw_fault(const Case& drawn, const std::vector<FaultKind>& kinds, Random& random) {
  CaseFault fault;
  fault.kind = random.pick(kinds);
  fault.rank = draw_rank(drawn.topology, random);
  fault.length = drawn.engine.deadline / 10 * random.within(1, 40);
  fault.tick = random.below(40);
  if (fault.kind < FaultKind::pause) draw_message_fault(fault, drawn, random);
  return fault;
}

std::vector<CaseFault> draw_faults(const Case& drawn, const CaseOptions& options, Random& random) {
  const FaultKinds drawn_here = without_deaths(options.faults);  // The others have a draw of their own.
  const std::vector<FaultKind> kinds(drawn_here.begin(), drawn_here.end());
  std::vector<CaseFault> faults;
  if (kinds.empty()) return faults;
  for (std::size_t i = random.below(4); i > 0; --i) faults.push_back(draw_fault(drawn, kinds, random));
  return faults;
}

}  // namespace

std::vector<std::size_t> Case::bundle_bytes() const {
  std::vector<std::size_t> bytes;
  for (const BundleShape& layer : layers) bytes.push_back(bytes_of(layer));
  return bytes;
}

Result<Case> draw_case(std::uint64_t seed, const CaseOptions& options) {
  Random random(seed);
  Result<Topology> topology = draw_topology(options, random);
  if (!topology) return failure(std::move(topology));
  const PlacementShape shape = draw_shape(*topology, random);
  Case drawn{.seed = seed, .topology = std::move(*topology), .first = draw_placement(shape, random)};
  for (std::int32_t i = 0; i < shape.num_layers; ++i) drawn.layers.push_back(random.pick(bundles));
  if (has_large_bundle(seed, options, drawn.topology)) drawn.layers.front() = large_bundle;
  drawn.arrangement = draw_arrangement(options, random);
  drawn.num_fused = random.within(0, 2);
  for (int i = random.within(1, 4); i > 0; --i) {
    drawn.targets.push_back(
        draw_next_placement(drawn.targets.empty() ? drawn.first : drawn.targets.back(), random));
  }
  drawn.engine = draw_engine(options, random);
  drawn.engine.staging_budget_bytes = draw_staging(drawn, random);
  if (options.staging_budget_bytes) {
    Result<std::size_t> staging = staging_within(*options.staging_budget_bytes, drawn);
    if (!staging) return failure(std::move(staging));
    drawn.engine.staging_budget_bytes = *staging;
  }
  drawn.stall_budget_bytes = options.stall_budget_bytes;
  if (random.one_in(3) && !drawn.stall_budget_bytes) drawn.stall_budget_bytes = random.below(1500);
  drawn.pace = draw_pace(options, drawn.topology.num_ranks(), random);
  drawn.faults = draw_faults(drawn, options, random);
  draw_deaths(drawn, options);
  return drawn;
}

std::string describe(const CaseFault& fault) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(fault.length).count();
  if (fault.kind == FaultKind::pause)
    return fmt::format("rank {} pauses for {} ms from tick {}", fault.rank.value(), ms, fault.tick);
  if (fault.kind == FaultKind::jump)
    return fmt::format("the clock jumps by {} ms at tick {}", ms, fault.tick);
  if (is_death(fault.kind)) return describe_death(fault);
  std::string text = fmt::format("rank {}: {} of {} {} {}", fault.rank.value(), to_string(fault.kind),
                                 fault.is_control ? "control" : "payload",
                                 fault.side == Side::send ? "send" : "receive", fault.occurrence);
  if (fault.peer) text += fmt::format(", peer {}", fault.peer->value());
  if (fault.kind == FaultKind::delay) text += fmt::format(", for {} ms", ms);
  return text;
}

std::string describe(const Case& drawn) {
  std::string slots;
  for (Rank rank : ids<Rank>(drawn.topology.num_ranks()))
    slots += fmt::format(" {}", drawn.topology.rank(rank).num_slots);
  std::string text = fmt::format(
      "case of seed {}: {} ranks on {} nodes, slots{}; {} layers x {} experts, bundles of {} bytes, {}\n"
      "  staging budget {}, stall budget {}, deadline {} ms, hold {}, up to {} batches in flight\n",
      drawn.seed, drawn.topology.num_ranks(), drawn.topology.num_nodes(), slots, drawn.layers.size(),
      drawn.first.num_experts(), fmt::join(drawn.bundle_bytes(), " "), to_string(drawn.arrangement),
      drawn.engine.staging_budget_bytes,
      drawn.stall_budget_bytes ? std::to_string(*drawn.stall_budget_bytes) : "none",
      std::chrono::duration_cast<std::chrono::milliseconds>(drawn.engine.deadline).count(),
      drawn.engine.hold_forwards, drawn.pace.max_in_flight);
  if (drawn.has_deaths) {
    text += fmt::format("  heartbeat {} us, {} misses; {}\n",
                        std::chrono::duration_cast<std::chrono::microseconds>(drawn.heartbeat.period).count(),
                        drawn.heartbeat.misses,
                        drawn.has_source ? "lost experts come from a source" : "every expert on two ranks");
  }
  for (const CaseFault& fault : drawn.faults) text += fmt::format("  fault: {}\n", describe(fault));
  return text;
}

}  // namespace trimtab::verify
