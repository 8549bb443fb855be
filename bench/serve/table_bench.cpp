// SPDX-License-Identifier: Apache-2.0
#include <trimtab/route/routing_table.hpp>
#include <trimtab/route/table_buffer.hpp>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <utility>
#include <vector>

// A table of DeepSeek-V3's size for a large deployment: 61 layers, 256 experts, 320 ranks; one slot for each
// rank, or two.
namespace trimtab::bench {
namespace {

constexpr std::int32_t layers = 61;
constexpr std::int32_t experts = 256;
constexpr std::int32_t ranks = 320;

Placement make_placement(std::int32_t slots) { return Placement::identity(layers, slots, experts).value(); }

Topology make_topology(std::int32_t slots) { return Topology::make_uniform(ranks, 40, slots).value(); }

Split make_split(std::int32_t slots) {
  std::mt19937_64 random(1);
  std::vector<std::int64_t> assignments(static_cast<std::size_t>(layers) * static_cast<std::size_t>(slots));
  for (std::int64_t& count : assignments) count = 1 + static_cast<std::int64_t>(random() % 4096);
  return Split::make(layers, slots, std::move(assignments)).value();
}

RoutingTable make_table(std::int32_t slots, std::uint64_t epoch) {
  return RoutingTable::compile(make_placement(slots), make_topology(slots), {.epoch = Epoch{epoch}},
                               make_split(slots))
      .value();
}

/// Every live slot serves its expert, as none has a share of 0.
bool lists_all(const RoutingTable& table, std::int32_t slots) {
  return table.view().slots.size() == static_cast<std::size_t>(layers) * static_cast<std::size_t>(slots);
}

void table_compile(benchmark::State& state) {
  const auto slots = static_cast<std::int32_t>(state.range(0));
  const Placement placement = make_placement(slots);
  const Topology topology = make_topology(slots);
  const Split split = make_split(slots);
  for (auto _ : state) {
    const auto table = RoutingTable::compile(placement, topology, {.epoch = Epoch{1}}, split);
    if (!table || !lists_all(*table, slots)) state.SkipWithError("wrong table");
  }
}

/// The raw twin: indexing the same placement by expert, as every user of a map must.
void raw_index(benchmark::State& state) {
  const auto slots = static_cast<std::int32_t>(state.range(0));
  const Placement placement = make_placement(slots);
  const auto row = placement.layer(LayerId{0});
  std::vector<ExpertId> map;
  for (std::int32_t l = 0; l < layers; ++l) map.insert(map.end(), row.begin(), row.end());
  for (auto _ : state) {
    state.PauseTiming();
    std::vector<ExpertId> copy = map;
    state.ResumeTiming();
    const auto made = Placement::make(layers, slots, experts, std::move(copy));
    if (!made || !(*made == placement)) state.SkipWithError("wrong placement");
  }
}

struct FreeAligned {
  void operator()(std::byte* memory) const noexcept { std::free(memory); }
};

std::unique_ptr<std::byte, FreeAligned> aligned_memory(std::size_t size) {
  return std::unique_ptr<std::byte, FreeAligned>(
      static_cast<std::byte*>(std::aligned_alloc(table_buffer_alignment, size)));
}

void buffer_publish(benchmark::State& state) {
  const auto slots = static_cast<std::int32_t>(state.range(0));
  const TableCapacity capacity{layers, experts, slots};
  const std::size_t size = table_buffer_layout(capacity).size;
  const auto memory = aligned_memory(size);
  TableBuffer buffer = TableBuffer::make({memory.get(), size}, capacity).value();
  std::uint64_t epoch = 0;
  for (auto _ : state) {
    state.PauseTiming();
    const RoutingTable table = make_table(slots, ++epoch);
    state.ResumeTiming();
    if (!buffer.publish_at_boundary(table)) state.SkipWithError("refused");
  }
  const auto read = read_table_buffer({memory.get(), size}, make_topology(slots));
  if (!read || !lists_all(*read, slots)) state.SkipWithError("wrong table");
}

/// The raw twin: the same bytes, copied without a look.
void raw_copy(benchmark::State& state) {
  const std::size_t size =
      table_buffer_layout({layers, experts, static_cast<std::int32_t>(state.range(0))}).size;
  const std::vector<std::byte> from(size, std::byte{7});
  const auto to = aligned_memory(size);
  for (auto _ : state) {
    std::memcpy(to.get(), from.data(), size);
    benchmark::DoNotOptimize(to.get());
    benchmark::ClobberMemory();
  }
  if (!std::equal(from.begin(), from.end(), to.get())) state.SkipWithError("wrong bytes");
}

void add_sizes(benchmark::internal::Benchmark* bench) {
  bench->Unit(benchmark::kMicrosecond)->Arg(320)->Arg(640);
}

BENCHMARK(table_compile)->Name("route/compile table")->Apply(add_sizes);
BENCHMARK(raw_index)->Name("route/compile table/twin")->Apply(add_sizes);
BENCHMARK(buffer_publish)->Name("route/publish in place")->Apply(add_sizes)->Iterations(40);
BENCHMARK(raw_copy)->Name("route/publish in place/twin")->Apply(add_sizes);

}  // namespace
}  // namespace trimtab::bench
