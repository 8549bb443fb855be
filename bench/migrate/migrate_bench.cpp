// SPDX-License-Identifier: Apache-2.0
//
// One migration step between two in-process ranks, driven by one thread, beside the copies that it cannot do
// without: each moved bundle goes once into staging and is exchanged once with its slot.

#include <trimtab/migrate/engine.hpp>
#include <trimtab/transport/inproc.hpp>

#include "registered_main.hpp"

#include <benchmark/benchmark.h>

#include <cstring>
#include <memory>
#include <vector>

namespace trimtab {
namespace {

constexpr std::int32_t slots_per_rank = 8;

Placement make_placement(std::initializer_list<std::int32_t> experts) {
  std::vector<ExpertId> map;
  for (std::int32_t expert : experts) map.push_back(ExpertId{expert});
  return *Placement::make(1, 2 * slots_per_rank, 2 * slots_per_rank, std::move(map));
}

/// Four experts of each rank change sides.
const Placement here = make_placement({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15});
const Placement there = make_placement({8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15});

/// One rank: a bundle of weights, scales and offsets in the proportions of W8A8.
struct RankState {
  RankState(std::size_t bundle_bytes, IdRange<SlotId> slots, const Topology& topology)
      : weights(slots_per_rank * bundle_bytes),
        store(1, slots),
        publisher(*RoutingTable::compile(here, topology, {Epoch{0}, 0})) {
    const std::size_t small = bundle_bytes / 64;
    const std::size_t large = bundle_bytes - small;
    std::byte* base = weights.data();
    const std::vector<TensorSpec> tensors{
        {"w", ElementType::int8, base, slots_per_rank, large, large},
        {"scale", ElementType::int8, base + slots_per_rank * large, slots_per_rank, small, small}};
    if (!store.register_layer(LayerId{0}, tensors)) std::abort();
    for (SlotId slot : slots) {
      for (std::size_t t = 0; t < 2; ++t)
        std::memset(store.tensor_slot(LayerId{0}, t, slot).data(), slot.value() + 1, t == 0 ? large : small);
    }
  }

  std::vector<std::byte> weights;
  ExpertStore store;
  TablePublisher publisher;
  std::unique_ptr<Engine> engine;
  Forward next;
};

class TwoRanks {
 public:
  explicit TwoRanks(std::size_t bundle_bytes) : bundle_bytes_(bundle_bytes) {
    auto ends = make_inproc_transports(2);
    EngineOptions options;
    options.staging_budget_bytes = budget();
    for (Rank rank : ids<Rank>(2)) {
      ranks_.push_back(std::make_unique<RankState>(bundle_bytes, topology_.slots_of(rank), topology_));
      RankState& state = *ranks_.back();
      state.engine = *Engine::make(options, std::move((*ends)[rank.index()]), state.store, state.publisher,
                                   topology_, here, clock_);
    }
  }

  /// There, or back.
  void run_step() {
    const Placement& to = ranks_[0]->engine->placement() == here ? there : here;
    const std::vector<std::size_t> bytes{bundle_bytes_};
    const Program program = *build_program(
        {ranks_[0]->engine->health().epoch, ranks_[0]->engine->placement(), to, topology_, bytes, budget()});
    for (auto& rank : ranks_) {
      if (!rank->engine->begin(program)) std::abort();
    }
    while (!ranks_[0]->engine->is_idle() || !ranks_[1]->engine->is_idle()) {
      for (auto& rank : ranks_) {
        const auto admission = rank->engine->advance(rank->next, std::chrono::milliseconds(100));
        if (!admission) std::abort();
        if (*admission == Admission::go) rank->next = rank->next.next();
      }
    }
  }

  /// Every slot holds the bytes of the expert that the placement names.
  [[nodiscard]] bool is_right() const {
    for (const auto& rank : ranks_) {
      for (SlotId slot : rank->store.slots()) {
        const auto expected =
            static_cast<std::byte>(rank->engine->placement().expert_at(LayerId{0}, slot).value() + 1);
        for (std::size_t t = 0; t < 2; ++t) {
          const auto bytes = rank->store.tensor_slot(LayerId{0}, t, slot);
          if (bytes.front() != expected || bytes.back() != expected || bytes[bytes.size() / 2] != expected)
            return false;
        }
      }
    }
    return true;
  }

 private:
  [[nodiscard]] std::size_t budget() const { return 4 * (bundle_bytes_ + 64); }

  std::size_t bundle_bytes_;
  Topology topology_ = *Topology::make_uniform(2, 1, 2 * slots_per_rank);
  SteadyClock clock_;
  std::vector<std::unique_ptr<RankState>> ranks_;
};

void step(benchmark::State& state) {
  const auto bundle_bytes = static_cast<std::size_t>(state.range(0));
  TwoRanks ranks(bundle_bytes);
  for (auto _ : state) ranks.run_step();
  if (!ranks.is_right()) state.SkipWithError("a slot holds wrong bytes");
  state.SetBytesProcessed(state.iterations() * 8 * state.range(0));
}

/// Eight bundles, slot -> staging and staging -> slot.
void two_memcpys(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  std::vector<std::byte> slots(16 * bytes, std::byte{1});
  std::vector<std::byte> staging(8 * bytes, std::byte{2});
  for (auto _ : state) {
    for (std::size_t i = 0; i < 8; ++i) std::memcpy(&staging[i * bytes], &slots[i * bytes], bytes);
    benchmark::ClobberMemory();
    for (std::size_t i = 0; i < 8; ++i) std::memcpy(&slots[(8 + i) * bytes], &staging[i * bytes], bytes);
    benchmark::ClobberMemory();
  }
  if (slots[16 * bytes - 1] != slots[8 * bytes - 1]) state.SkipWithError("the copy differs");
  state.SetBytesProcessed(state.iterations() * 8 * state.range(0));
}

void register_benchmarks() {
  for (std::int64_t kib : {192, 4096, 16384}) {
    const std::string name = "migrate/step of 8 bundles/" + std::to_string(kib) + " KiB";
    benchmark::RegisterBenchmark(name.c_str(), step)->Arg(kib * 1024);
    benchmark::RegisterBenchmark((name + "/twin").c_str(), two_memcpys)->Arg(kib * 1024);
  }
}

}  // namespace
}  // namespace trimtab

int main(int argc, char** argv) {
  return trimtab::bench::run_registered(argc, argv, trimtab::register_benchmarks);
}
