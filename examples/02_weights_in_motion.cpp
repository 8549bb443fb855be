// SPDX-License-Identifier: Apache-2.0
// An engine that moves expert weights while it serves: two ranks, threads of one process. Each registers its
// tensors, and calls its engine before every forward; when a plan asks for it, two experts change places
// under the traffic. A forward never sees a slot whose bytes are not those of the expert that its table
// names.

#include <trimtab/migrate/engine.hpp>
#include <trimtab/transport/inproc.hpp>

#include <array>
#include <atomic>
#include <cstdio>
#include <thread>
#include <utility>
#include <vector>

using namespace trimtab;

namespace {

constexpr std::int32_t num_ranks = 2;
constexpr std::int32_t num_experts = 4;  // One layer; as many slots.
constexpr std::size_t weight_bytes = 4096;
constexpr std::size_t scale_bytes = 64;

Placement place(std::vector<ExpertId> expert_of_slot) {
  return *Placement::make(1, num_experts, num_experts, std::move(expert_of_slot));
}

/// The tensors of one rank's slots, as an engine allocates them. Expert e is all bytes of value e here.
struct Weights {
  std::array<std::vector<std::byte>, 2> tensors;  // Weights and scales, slot after slot.

  Weights(const Placement& placement, IdRange<SlotId> slots) {
    for (SlotId slot : slots) {
      const auto value = static_cast<std::byte>(placement.expert_at(LayerId{0}, slot).value());
      tensors[0].insert(tensors[0].end(), weight_bytes, value);
      tensors[1].insert(tensors[1].end(), scale_bytes, value);
    }
  }
  /// All tensors that make an expert: what is not registered stays behind.
  Status register_in(ExpertStore& store) {
    const auto num_slots = static_cast<std::int32_t>(store.slots().size());
    std::array<TensorSpec, 2> specs;
    specs[0].name = "w13";
    specs[1].name = "w13_scale";
    specs[0].slot_bytes = specs[0].stride_bytes = weight_bytes;
    specs[1].slot_bytes = specs[1].stride_bytes = scale_bytes;
    for (std::size_t t = 0; t < specs.size(); ++t) {
      specs[t].base = tensors[t].data();
      specs[t].num_slots = num_slots;
    }
    return store.register_layer(LayerId{0}, specs);
  }
};

/// Serves until all ranks have reached `goal`. Returns how many slots got another expert here, or -1.
std::int64_t serve(std::unique_ptr<Transport> channel, const Topology& ranks, const Placement& first,
                   const Placement& goal, std::atomic<int>& num_done) {
  const IdRange<SlotId> slots = ranks.slots_of(channel->rank());
  Weights weights(first, slots);
  ExpertStore store(1, slots);
  if (!weights.register_in(store)) return -1;
  TablePublisher publisher(*RoutingTable::compile(first, ranks, {Epoch{0}, 0}));
  TableReader reader = publisher.make_reader();
  SteadyClock clock;
  EngineOptions options;
  options.staging_budget_bytes = std::size_t{64} << 10;
  auto engine = Engine::make(options, std::move(channel), store, publisher, ranks, first, clock);
  if (!engine) return -1;

  MigrationGoal wanted{.to = goal};
  wanted.stall_budget = std::chrono::milliseconds(2);  // No step may stop a rank for longer.
  if (!(*engine)->begin_toward(std::move(wanted))) return -1;
  bool is_counted = false;
  for (Forward next; num_done.load() < num_ranks;) {  // A rank that is done still answers the others.
    const auto admission = (*engine)->advance(next, std::chrono::microseconds(200));
    if (!admission) return std::fprintf(stderr, "%s\n", admission.error().message.c_str()), -1;
    if (*admission == Admission::go) {
      const TableLease table = reader.acquire();  // Held as long as the forward is in flight.
      for (std::int32_t e = 0; e < num_experts; ++e) {
        for (SlotId slot : table->replicas(LayerId{0}, ExpertId{e})) {
          if (!slots.contains(slot)) continue;
          if (store.tensor_slot(LayerId{0}, 0, slot)[0] != static_cast<std::byte>(e)) return -1;
        }
      }
      next = next.next();
    }
    if ((*engine)->is_idle() && !std::exchange(is_counted, true)) num_done.fetch_add(1);
  }
  return (*engine)->placement() == goal ? static_cast<std::int64_t>((*engine)->counters().slots_moved) : -1;
}

}  // namespace

int main() {
  const Placement first = place({ExpertId{0}, ExpertId{1}, ExpertId{2}, ExpertId{3}});
  const Placement goal = place({ExpertId{0}, ExpertId{2}, ExpertId{1}, ExpertId{3}});
  const auto ranks = Topology::make_uniform(num_ranks, 1, num_experts);
  auto channels = make_inproc_transports(num_ranks);
  if (!ranks || !channels) return 1;
  std::atomic<int> num_done{0};
  std::array<std::int64_t, num_ranks> moved{};
  {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < moved.size(); ++rank) {
      threads.emplace_back([&, rank] {
        moved[rank] = serve(std::move((*channels)[rank]), *ranks, first, goal, num_done);
        if (moved[rank] < 0) num_done.store(num_ranks);  // The other shall not wait.
      });
    }
  }
  std::printf("slots that got another expert while serving: rank 0 %lld, rank 1 %lld\n",
              static_cast<long long>(moved[0]), static_cast<long long>(moved[1]));
  return moved[0] == 1 && moved[1] == 1 ? 0 : 1;
}
