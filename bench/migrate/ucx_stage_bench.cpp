// SPDX-License-Identifier: Apache-2.0
//
// Staging between two processes over the loopback, up to the vote, beside the same tensors sent and received
// by UCX alone with the same lanes and error handling; with its defaults, and tuned for tcp.

#include "forked.hpp"
#include "stage_turns.hpp"
#include "transport/lanes.hpp"

#include <trimtab/transport/collectives.hpp>
#include <trimtab/transport/ucx.hpp>

#include <array>

namespace trimtab::bench {
namespace {

/// Four bundles each way, tensor by tensor.
class RawExchange {
 public:
  RawExchange(ExpertShape shape, TwoWays& ways, const Together& together)
      : ways_(ways),
        together_(together),
        out_(bundles_each_way * shape.bundle_bytes(), std::byte{1}),
        in_(bundles_each_way * shape.bundle_bytes(), std::byte{2}) {
    std::size_t at = 0;
    for (std::size_t bundle = 0; bundle < bundles_each_way; ++bundle) {
      for (const std::size_t bytes : shape.tensor_bytes()) {
        sent_.push_back(std::span(out_).subspan(at, bytes));
        received_.push_back(std::span(in_).subspan(at, bytes));
        at += bytes;
      }
    }
  }

  double run() {
    together_.barrier();
    const auto begun = std::chrono::steady_clock::now();
    ways_.exchange(sent_, received_);
    return together_.slowest(std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count());
  }
  [[nodiscard]] bool is_right() const { return in_ == out_; }

 private:
  TwoWays& ways_;
  const Together& together_;
  std::vector<std::byte> out_;
  std::vector<std::byte> in_;
  std::vector<std::span<const std::byte>> sent_;
  std::vector<std::span<std::byte>> received_;
};

Together meet_over(Transport& channel, const Clock& clock) {
  const auto check = [](const Status& done) {
    if (!done) give_up(done.error());
  };
  return {[&channel, &clock, check] { check(barrier(channel, clock, {Tag{1}})); },
          [&channel, &clock, check](double seconds) {
            double both[2]{};
            check(all_gather(channel, clock, {Tag{1}}, std::as_bytes(std::span(&seconds, 1)),
                             std::as_writable_bytes(std::span(both))));
            return std::max(both[0], both[1]);
          }};
}

/// Rows of all sizes.
std::string measure(const Bootstrap& of_engine, const Bootstrap& of_twin, bool is_tuned) {
  UcxSession session = value_of(UcxSession::start(of_engine, {.is_tuned = is_tuned}));
  const auto root = value_of(make_ucx_transport(session));
  const auto ways = make_raw_ucx_ways(of_twin, is_tuned);
  const SteadyClock clock;
  const Together together = meet_over(*root, clock);
  std::string rows;
  for (const auto& [size, shape] : stage_sizes) {
    StageRank rank(shape, value_of(root->open_channel()), together);
    RawExchange twin(shape, *ways, together);
    const std::string name =
        fmt::format("migrate/ucx{} staging of 8 bundles/{}", is_tuned ? " tuned" : "", size);
    rows += (rows.empty() ? "" : ",\n") + take_turns(name, shape, rank, [&] { return twin.run(); });
    if (!rank.is_right() || !twin.is_right()) give_up({Errc::corrupt, "a slot holds wrong bytes"});
    together.barrier();
  }
  return rows;
}

/// With the defaults of UCX, and tuned. Both sides have the same rows.
std::string measure_all(const std::array<Bootstrap, 4>& ways) {
  return measure(ways[0], ways[1], false) + ",\n" + measure(ways[2], ways[3], true);
}

}  // namespace
}  // namespace trimtab::bench

int main() {
  using namespace trimtab::bench;
  const auto sides = fork_other_side<4>([](const auto& ways, int) { measure_all(ways); });
  fmt::print("[{}]\n", measure_all(sides.ways));
}
