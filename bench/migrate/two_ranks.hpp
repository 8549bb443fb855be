// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "two_threads.hpp"

#include <trimtab/migrate/engine.hpp>
#include <trimtab/transport/inproc.hpp>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

namespace trimtab::bench {

inline constexpr std::int32_t slots_per_rank = 8;
inline constexpr std::size_t bundles_each_way = 4;

/// An expert in W8A8: matrices of int8 with a scale and an offset for each row.
struct ExpertShape {
  std::size_t hidden;
  std::size_t intermediate;

  [[nodiscard]] std::array<std::size_t, 6> tensor_bytes() const {
    const std::size_t rows = 2 * intermediate;
    return {rows * hidden, rows * 4, rows * 4, hidden * intermediate, hidden * 4, hidden * 4};
  }
  [[nodiscard]] std::size_t bundle_bytes() const {
    std::size_t sum = 0;
    for (const std::size_t bytes : tensor_bytes()) sum += bytes;
    return sum;
  }
};

inline Placement make_placement(std::initializer_list<std::int32_t> experts) {
  std::vector<ExpertId> map;
  for (std::int32_t expert : experts) map.push_back(ExpertId{expert});
  return *Placement::make(1, 2 * slots_per_rank, 2 * slots_per_rank, std::move(map));
}

/// Four experts of each rank change sides.
inline const Placement here = make_placement({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15});
inline const Placement there = make_placement({8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15});

[[noreturn]] inline void give_up(const Error& why) {
  std::fprintf(stderr, "%s\n", why.message.c_str());
  std::abort();
}

/// Word `index` of a tensor of `expert`.
inline std::uint64_t word_of(ExpertId expert, std::size_t tensor, std::size_t index) noexcept {
  const auto name = static_cast<std::uint64_t>(expert.value()) * 8 + tensor + 1;
  return name * 0x9e3779b97f4a7c15U ^ index * 0xbf58476d1ce4e5b9U;
}

/// One rank of a service with one layer, and when it voted and ended its last step.
class BenchRank final : public EngineObserver {
 public:
  BenchRank(ExpertShape shape, IdRange<SlotId> slots, const Topology& topology)
      : weights_(slots_per_rank * shape.bundle_bytes()),
        store_(1, slots),
        publisher_(*RoutingTable::compile(here, topology, {Epoch{0}, 0})) {
    const char* const names[]{"w13", "w13_scale", "w13_offset", "w2", "w2_scale", "w2_offset"};
    std::vector<TensorSpec> tensors;
    std::byte* base = weights_.data();
    for (std::size_t t = 0; t < 6; ++t) {
      const std::size_t bytes = shape.tensor_bytes()[t];
      tensors.push_back({names[t], ElementType::int8, base, slots_per_rank, bytes, bytes});
      base += slots_per_rank * bytes;
    }
    if (!store_.register_layer(LayerId{0}, tensors)) std::abort();
    for (SlotId slot : slots) {
      for (std::size_t t = 0; t < 6; ++t) fill(t, slot);
    }
  }

  void make_engine(const EngineOptions& options, std::unique_ptr<Transport> channel, const Topology& topology,
                   const Clock& clock) {
    auto made = Engine::make(options, std::move(channel), store_, publisher_, topology, here, clock);
    if (!made) give_up(made.error());
    engine_ = std::move(*made);
    engine_->set_observer(this);
  }

  /// Until the step is over on this rank.
  void run(const Program& program) {
    if (Status begun = engine_->begin(program); !begun) give_up(begun.error());
    while (!engine_->is_idle()) {
      const auto admission = engine_->advance(next_, std::chrono::milliseconds(1));
      if (!admission) give_up(admission.error());
      // Forwards are counted only to reach the one that the ranks agreed on: they are collective, and here
      // nothing else would keep the ranks from running apart.
      if (*admission == Admission::go && engine_->health().state == StepState::draining) next_ = next_.next();
      std::this_thread::yield();  // Ranks may share a core.
    }
    if (engine_->counters().steps_rolled_back > 0) give_up(*engine_->health().last_failure);
  }

  /// One forward's call without a program.
  void advance_idle() {
    if (!engine_->advance(next_, {})) std::abort();
    next_ = next_.next();
  }

  void on_commit(const Step&, Epoch) override {}
  void on_transition(StepState, StepEvent, StepState after) override {
    if (after == StepState::staged) voted_ = std::chrono::steady_clock::now();
  }

  [[nodiscard]] std::chrono::steady_clock::time_point voted() const noexcept { return voted_; }
  [[nodiscard]] const Engine& engine() const noexcept { return *engine_; }

  /// Every byte of every slot is that of the expert that the placement names.
  [[nodiscard]] bool is_right() const {
    for (SlotId slot : store_.slots()) {
      for (std::size_t t = 0; t < 6; ++t) {
        if (!is_right(t, slot)) return false;
      }
    }
    return true;
  }

 private:
  [[nodiscard]] static std::uint64_t* words(std::span<std::byte> bytes) noexcept {
    return reinterpret_cast<std::uint64_t*>(bytes.data());
  }
  [[nodiscard]] static ExpertId expert_in(const Placement& placement, SlotId slot) noexcept {
    return placement.expert_at(LayerId{0}, slot);
  }
  void fill(std::size_t tensor, SlotId slot) const {
    const auto bytes = store_.tensor_slot(LayerId{0}, tensor, slot);
    for (std::size_t i = 0; i < bytes.size() / 8; ++i)
      words(bytes)[i] = word_of(expert_in(here, slot), tensor, i);
  }
  [[nodiscard]] bool is_right(std::size_t tensor, SlotId slot) const {
    const auto bytes = store_.tensor_slot(LayerId{0}, tensor, slot);
    const ExpertId expert = expert_in(engine_->placement(), slot);
    for (std::size_t i = 0; i < bytes.size() / 8; ++i) {
      if (words(bytes)[i] != word_of(expert, tensor, i)) return false;
    }
    return true;
  }

  std::vector<std::byte> weights_;
  ExpertStore store_;
  TablePublisher publisher_;
  std::unique_ptr<Engine> engine_;
  Forward next_;
  std::chrono::steady_clock::time_point voted_;
};

/// Two ranks, each on a thread of its own.
class TwoRanks {
 public:
  struct Times {
    double staging;  ///< Until both have voted.
    double step;     ///< Until both are idle again.
  };

  explicit TwoRanks(ExpertShape shape) : shape_(shape) {
    auto ends = make_inproc_transports(2);
    EngineOptions options;
    options.staging_budget_bytes = budget();
    for (Rank rank : ids<Rank>(2)) {
      ranks_.push_back(std::make_unique<BenchRank>(shape, topology_.slots_of(rank), topology_));
      ranks_.back()->make_engine(options, std::move((*ends)[rank.index()]), topology_, clock_);
    }
  }

  /// There, or back.
  Times run_step(TwoThreads& threads) {
    const Engine& first = ranks_[0]->engine();
    const std::vector<std::size_t> bytes{shape_.bundle_bytes()};
    const Program program =
        *build_program({first.health().epoch, first.placement(), first.placement() == here ? there : here,
                        topology_, bytes, budget()});
    const auto begun = std::chrono::steady_clock::now();
    const double step = threads.run([&](std::size_t rank) { ranks_[rank]->run(program); });
    const auto voted = std::max(ranks_[0]->voted(), ranks_[1]->voted());
    return {std::chrono::duration<double>(voted - begun).count(), step};
  }

  void advance_idle() { ranks_[0]->advance_idle(); }
  [[nodiscard]] bool is_right() const { return ranks_[0]->is_right() && ranks_[1]->is_right(); }

 private:
  [[nodiscard]] std::size_t budget() const { return bundles_each_way * (shape_.bundle_bytes() + 64); }

  ExpertShape shape_;
  Topology topology_ = *Topology::make_uniform(2, 1, 2 * slots_per_rank);
  SteadyClock clock_;
  std::vector<std::unique_ptr<BenchRank>> ranks_;
};

}  // namespace trimtab::bench
