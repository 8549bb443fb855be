// SPDX-License-Identifier: Apache-2.0
//
// Lost experts read back from a peer's host copies, from one process to another over the loopback, beside the
// twin: the same bundles sent by UCX alone as one message each, unverified, when nobody has to ask.

#include "forked.hpp"
#include "lanes.hpp"
#include "registered_main.hpp"

#include <trimtab/core/clock.hpp>
#include <trimtab/migrate/peer_copy_source.hpp>
#include <trimtab/transport/ucx.hpp>

#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace trimtab::bench {
namespace {

constexpr LayerId layer{0};
constexpr std::int32_t num_bundles = 4;
constexpr std::size_t bundle_bytes = std::size_t{6} << 20;
constexpr Rank keeper{1};

using Bytes = std::vector<std::byte>;

/// No two neighbours alike, and no two experts.
Bytes make_bundle(ExpertId expert) {
  Bytes bundle(bundle_bytes);
  for (std::size_t i = 0; i < bundle.size(); ++i)
    bundle[i] = static_cast<std::byte>(i * 7 + i / 4096 + 31 * expert.index());
  return bundle;
}

/// How the two meet: for the lane, and for the copies.
using Ways = std::array<Bootstrap, 2>;

/// One side: the lane of the twin, and the host copies beside it.
struct Side {
  explicit Side(const Ways& ways)
      : lane(make_raw_ucx_lane(ways[0], true)), session(value_of(UcxSession::start(ways[1]))) {
    HostCopyPlan plan(2);
    auto kept = std::make_shared<HostCopySource>(num_bundles * bundle_bytes);
    for (const ExpertId expert : ids<ExpertId>(num_bundles)) {
      bundles.push_back(make_bundle(expert));
      if (!plan.add(layer, expert, keeper)) give_up("no plan");
      if (ways[1].rank == keeper && !kept->add(layer, expert, bundles.back())) give_up("no room");
    }
    copies = value_of(
        make_background_peer_copies({}, value_of(make_ucx_transport(session)), kept, plan, nullptr, clock));
  }

  SteadyClock clock;
  std::unique_ptr<Lane> lane;
  UcxSession session;
  std::vector<Bytes> bundles;
  std::unique_ptr<PeerCopySource> copies;
};

void keep(const Ways& ways, int orders) {
  const Side side(ways);
  for (char order = 0; read(orders, &order, 1) == 1;) {
    for (const Bytes& bundle : side.bundles) side.lane->send(bundle);
  }
}

class Reader {
 public:
  Reader(const Ways& ways, int orders) : side_(ways), orders_(orders) {
    for (Bytes& room : rooms_) room.resize(bundle_bytes);
  }

  void read_copies(benchmark::State& state) {
    for (const ExpertId expert : ids<ExpertId>(num_bundles)) {
      const Status done = side_.copies->read(layer, expert, rooms_[expert.index()]);
      if (!done) state.SkipWithError(done.error().message.c_str());
    }
  }
  void receive_plain(benchmark::State& state) {
    if (write(orders_, "!", 1) != 1) state.SkipWithError("the keeper has gone");
    for (Bytes& room : rooms_) side_.lane->receive(room);
  }

  template <class Run>
  void measure(benchmark::State& state, const Run& run) {
    for (auto _ : state) {
      const auto begun = std::chrono::steady_clock::now();
      run();
      state.SetIterationTime(std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count());
      check(state);
    }
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(num_bundles * bundle_bytes));
  }

 private:
  /// Wipes what it has compared, so that the next round shows what it read.
  void check(benchmark::State& state) {
    for (std::size_t i = 0; i < rooms_.size(); ++i) {
      if (rooms_[i] != side_.bundles[i]) state.SkipWithError("what arrived is not what was kept");
      rooms_[i].assign(bundle_bytes, std::byte{0xee});
    }
  }

  Side side_;
  int orders_;
  std::array<Bytes, num_bundles> rooms_;
};

template <class Run>
void add(Reader& reader, const char* name, Run run) {
  benchmark::RegisterBenchmark(
      name, [&reader, run](benchmark::State& state) { reader.measure(state, [&] { (reader.*run)(state); }); })
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

}  // namespace
}  // namespace trimtab::bench

int main(int argc, char** argv) {
  using namespace trimtab::bench;
  const auto sides = fork_other_side<2>(keep);
  Reader reader(sides.ways, sides.orders);
  return run_registered(argc, argv, [&] {
    add(reader, "sources/peer copies", &Reader::read_copies);
    add(reader, "sources/peer copies/twin", &Reader::receive_plain);
  });
}
