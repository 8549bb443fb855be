// SPDX-License-Identifier: Apache-2.0
//
// Large messages from one process to another over the loopback: trimtab's ucx beside UCX alone, and beside a
// plain socket. The sender is forked before anything else, and told over a pipe when to send.

#include "forked.hpp"
#include "lanes.hpp"
#include "registered_main.hpp"

#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace trimtab::bench {
namespace {

enum class LaneKind : std::uint8_t { trimtab, trimtab_tuned, raw, raw_tuned, socket };
constexpr std::size_t num_lanes = 5;
constexpr std::size_t message_bytes = std::size_t{8} << 20;
constexpr int messages_each = 4;

using Lanes = std::array<std::unique_ptr<Lane>, num_lanes>;
using Ways = std::array<Bootstrap, num_lanes>;

Lanes open_lanes(const Ways& ways) {
  return {make_trimtab_lane(ways[0], false), make_trimtab_lane(ways[1], true),
          make_raw_ucx_lane(ways[2], false), make_raw_ucx_lane(ways[3], true), make_socket_lane(ways[4])};
}

/// What is sent under a number: no two neighbours alike, and no two numbers.
void fill(std::vector<std::byte>& message, std::uint8_t number) {
  for (std::size_t i = 0; i < message.size(); ++i)
    message[i] = static_cast<std::byte>(i * 7 + i / 4096 + number);
}

struct Order {
  std::uint8_t lane = 0;
  std::uint8_t number = 0;
};

void serve(const Ways& ways, int orders) {
  const Lanes lanes = open_lanes(ways);
  std::array<std::vector<std::byte>, 2> messages{std::vector<std::byte>(message_bytes),
                                                 std::vector<std::byte>(message_bytes)};
  for (std::uint8_t i = 0; i < 2; ++i) fill(messages[i], i);
  for (Order order; read(orders, &order, sizeof order) == sizeof order;) {
    for (int m = 0; m < messages_each; ++m) lanes[order.lane]->send(messages[order.number]);
  }
}

class Receiver {
 public:
  Receiver(const Ways& ways, int orders) : lanes_(open_lanes(ways)), orders_(orders) {
    for (std::uint8_t i = 0; i < 2; ++i) {
      expected_[i].resize(message_bytes);
      fill(expected_[i], i);
    }
  }

  double run(LaneKind kind, benchmark::State& state) {
    const Order order{static_cast<std::uint8_t>(kind), number_};
    const auto begun = std::chrono::steady_clock::now();
    if (write(orders_, &order, sizeof order) != sizeof order) give_up("the sender has gone");
    for (auto& memory : memories_) lanes_[order.lane]->receive(memory);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begun;
    for (const auto& memory : memories_) {
      if (memory != expected_[number_]) state.SkipWithError("what arrived is not what was sent");
    }
    number_ ^= 1;  // So that bytes of the last round are wrong ones.
    return taken.count();
  }

 private:
  Lanes lanes_;
  int orders_;
  std::uint8_t number_ = 0;
  std::array<std::vector<std::byte>, 2> expected_;
  std::array<std::vector<std::byte>, messages_each> memories_ = [] {
    std::array<std::vector<std::byte>, messages_each> all;
    for (auto& memory : all) memory.resize(message_bytes);
    return all;
  }();
};

void add(Receiver& receiver, const std::string& name, LaneKind kind) {
  benchmark::RegisterBenchmark(
      name.c_str(),
      [&receiver, kind](benchmark::State& state) {
        for (auto _ : state) state.SetIterationTime(receiver.run(kind, state));
        state.SetBytesProcessed(state.iterations() *
                                static_cast<std::int64_t>(messages_each * message_bytes));
      })
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

}  // namespace
}  // namespace trimtab::bench

int main(int argc, char** argv) {
  using namespace trimtab::bench;
  const auto sides = fork_other_side<num_lanes>(serve);
  Receiver receiver(sides.ways, sides.orders);
  return run_registered(argc, argv, [&] {
    add(receiver, "transport/ucx", LaneKind::trimtab);
    add(receiver, "transport/ucx/twin", LaneKind::raw);
    add(receiver, "transport/ucx_tuned", LaneKind::trimtab_tuned);
    add(receiver, "transport/ucx_tuned/twin", LaneKind::raw_tuned);
    add(receiver, "transport/ucx_beside_socket", LaneKind::trimtab);
    add(receiver, "transport/ucx_beside_socket/twin", LaneKind::socket);
    add(receiver, "transport/ucx_tuned_beside_socket", LaneKind::trimtab_tuned);
    add(receiver, "transport/ucx_tuned_beside_socket/twin", LaneKind::socket);
  });
}
