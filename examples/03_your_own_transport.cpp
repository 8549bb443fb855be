// SPDX-License-Identifier: Apache-2.0
// An engine that brings a transport of its own, over a library like NCCL: grouped sends and receives, ordered
// by stream, without tags. The transport is in your_own_transport/ (read pair.hpp first), and passes the
// conformance suite like trimtab's own. Here four ranks serve over it while experts wander from rank to rank;
// every forward checks every byte of the slots that its table names.

#include "your_own_transport/grouped_end.hpp"

#include <trimtab/migrate/engine.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <thread>
#include <utility>
#include <vector>

using namespace trimtab;

namespace {

constexpr std::int32_t num_ranks = 4;
constexpr std::int32_t num_layers = 2;
constexpr std::int32_t num_experts = 16;  // As many slots.
constexpr std::size_t slot_bytes = std::size_t{16} << 10;
constexpr std::uint32_t num_rounds = 3;

/// Round after round, experts move on by one slot more than a rank has: no rank keeps any.
Placement place(std::uint32_t round) {
  constexpr std::uint32_t slots_per_rank = num_experts / num_ranks;
  std::vector<ExpertId> expert_of_slot;
  for (LayerId layer : ids<LayerId>(num_layers)) {
    for (std::uint32_t slot = 0; slot < num_experts; ++slot) {
      const std::uint32_t shift = round * (slots_per_rank + 1) + static_cast<std::uint32_t>(layer.value());
      expert_of_slot.emplace_back(static_cast<std::int32_t>((slot + shift) % num_experts));
    }
  }
  return *Placement::make(num_layers, num_experts, num_experts, std::move(expert_of_slot));
}

std::byte weight_of(LayerId layer, ExpertId expert, std::size_t at) {
  const auto seed = static_cast<std::size_t>(layer.value() * num_experts + expert.value());
  return static_cast<std::byte>(seed * 31 + at * 7 + at / 256);
}

void fill(std::span<std::byte> slot, LayerId layer, ExpertId expert) {
  for (std::size_t at = 0; at < slot.size(); ++at) slot[at] = weight_of(layer, expert, at);
}

bool holds(std::span<const std::byte> slot, LayerId layer, ExpertId expert) {
  for (std::size_t at = 0; at < slot.size(); ++at) {
    if (slot[at] != weight_of(layer, expert, at)) return false;
  }
  return true;
}

/// Forwards are collective: no rank is ahead of another by more than the one it has begun.
class Forwards {
 public:
  [[nodiscard]] bool may_begin(Forward forward) const {
    return std::ranges::all_of(next_, [&](const auto& next) { return next.load() >= forward.value(); });
  }
  void note_begun(Rank rank, Forward forward) { next_[rank.index()].store(forward.value() + 1); }

 private:
  std::array<std::atomic<std::uint64_t>, num_ranks> next_{};
};

/// One rank: its tensors, and the engine that moves what is in them.
class Server {
 public:
  Server(const Topology& ranks, Rank rank, Forwards& forwards)
      : ranks_(ranks),
        rank_(rank),
        forwards_(forwards),
        slots_(ranks.slots_of(rank)),
        store_(num_layers, slots_) {}

  Status start(std::unique_ptr<Transport> channel) {
    for (LayerId layer : ids<LayerId>(num_layers)) {
      if (Status registered = register_layer(layer); !registered) return registered;
    }
    EngineOptions options;
    options.staging_budget_bytes = std::size_t{256} << 10;
    auto engine = Engine::make(options, std::move(channel), store_, publisher_, ranks_, place(0), clock_);
    if (!engine) return failure(std::move(engine));
    engine_ = *std::move(engine);
    return {};
  }

  Status move_to(const Placement& goal) {
    MigrationGoal wanted{.to = goal};
    wanted.stall_budget = std::chrono::milliseconds(1);  // So a round takes many small steps.
    const Result<bool> begun = engine_->begin_toward(std::move(wanted));
    return begun ? Status() : failure(Result<bool>(begun));
  }

  /// Asks for the next forward, and serves it unless it is held.
  Status serve() {
    constexpr std::chrono::microseconds budget(100);
    if (!forwards_.may_begin(next_)) return engine_->progress(budget);
    const Result<Admission> admission = engine_->advance(next_, budget);
    if (!admission) return tl::unexpected(admission.error());
    if (*admission != Admission::go) return {};
    const TableLease table = reader_.acquire();  // Held as long as the forward is in flight.
    forwards_.note_begun(rank_, next_);
    next_ = next_.next();
    return check_slots(*table);
  }

  [[nodiscard]] const Engine& engine() const noexcept { return *engine_; }
  [[nodiscard]] std::uint64_t num_forwards() const noexcept { return next_.value(); }

 private:
  Status register_layer(LayerId layer) {
    std::vector<std::byte>& tensor = tensors_[layer.index()];
    tensor.resize(slot_bytes * slots_.size());
    TensorSpec spec;
    spec.name = "w13";
    spec.base = tensor.data();
    spec.slot_bytes = spec.stride_bytes = slot_bytes;
    spec.num_slots = static_cast<std::int32_t>(slots_.size());
    if (Status registered = store_.register_layer(layer, {&spec, 1}); !registered) return registered;
    const Placement first = place(0);
    for (SlotId slot : slots_) fill(store_.tensor_slot(layer, 0, slot), layer, first.expert_at(layer, slot));
    return {};
  }

  Status check_slots(const RoutingTable& table) {
    for (LayerId layer : ids<LayerId>(num_layers)) {
      for (ExpertId expert : ids<ExpertId>(num_experts)) {
        for (SlotId slot : table.replicas(layer, expert)) {
          if (slots_.contains(slot) && !holds(store_.tensor_slot(layer, 0, slot), layer, expert)) {
            return failure(Errc::corrupt, "slot " + std::to_string(slot.value()) + " is not expert " +
                                              std::to_string(expert.value()));
          }
        }
      }
    }
    return {};
  }

  const Topology& ranks_;
  Rank rank_;
  Forwards& forwards_;
  IdRange<SlotId> slots_;
  std::array<std::vector<std::byte>, num_layers> tensors_;
  ExpertStore store_;
  SteadyClock clock_;
  TablePublisher publisher_{*RoutingTable::compile(place(0), ranks_, {Epoch{0}, 0})};
  TableReader reader_ = publisher_.make_reader();
  std::unique_ptr<Engine> engine_;
  Forward next_;
};

/// Serves `round` until no rank moves anything any more: one that is through still answers the others.
Status serve_round(Server& server, std::uint32_t round, std::atomic<std::uint32_t>& num_through,
                   const std::atomic<bool>& has_failed) {
  if (Status begun = server.move_to(place(round)); !begun) return begun;
  for (bool is_through = false; num_through.load() < round * num_ranks;) {
    if (has_failed.load()) return failure(Errc::cancelled, "another rank has failed");
    if (Status served = server.serve(); !served) return served;
    if (server.engine().is_idle() && !std::exchange(is_through, true)) num_through.fetch_add(1);
  }
  return server.engine().placement() == place(round) ? Status()
                                                     : failure(Errc::internal, "a step was rolled back");
}

/// One rank's life.
Status run(Server& server, std::unique_ptr<Transport> root, std::atomic<std::uint32_t>& num_through,
           const std::atomic<bool>& has_failed) {
  // vllm-project/vllm#43110: weights that move over the channel of the forwards can hang both.
  Result<std::unique_ptr<Transport>> channel = root->open_channel();
  if (!channel) return failure(std::move(channel));
  if (Status started = server.start(*std::move(channel)); !started) return started;
  for (std::uint32_t round = 1; round <= num_rounds; ++round) {
    if (Status served = serve_round(server, round, num_through, has_failed); !served) return served;
  }
  return {};
}

}  // namespace

int main() {
  const auto ranks = Topology::make_uniform(num_ranks, 1, num_experts);
  if (!ranks) return 1;
  std::vector<std::unique_ptr<Transport>> roots = own::make_grouped_transports(num_ranks);
  Forwards forwards;
  std::vector<std::unique_ptr<Server>> servers;
  for (Rank rank : ids<Rank>(num_ranks)) servers.push_back(std::make_unique<Server>(*ranks, rank, forwards));
  std::atomic<std::uint32_t> num_through{0};
  std::atomic<bool> has_failed{false};
  {
    std::vector<std::jthread> threads;
    for (Rank rank : ids<Rank>(num_ranks)) {
      threads.emplace_back([&, rank] {
        const Status ended =
            run(*servers[rank.index()], std::move(roots[rank.index()]), num_through, has_failed);
        if (ended) return;
        std::fprintf(stderr, "rank %d: %s\n", rank.value(), ended.error().message.c_str());
        has_failed.store(true);
      });
    }
  }
  for (Rank rank : ids<Rank>(num_ranks)) {
    if (has_failed.load()) return 1;
    const Server& server = *servers[rank.index()];
    const EngineCounters& counters = server.engine().counters();
    std::printf("rank %d: %llu slots in %llu steps beside %llu forwards, every byte right\n", rank.value(),
                static_cast<unsigned long long>(counters.slots_moved),
                static_cast<unsigned long long>(counters.steps_committed),
                static_cast<unsigned long long>(server.num_forwards()));
  }
  return servers[0]->engine().counters().slots_moved == num_rounds * num_layers * num_experts / num_ranks ? 0
                                                                                                          : 1;
}
