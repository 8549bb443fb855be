// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/transport/bootstrap.hpp>

#include <cstddef>
#include <memory>
#include <span>

namespace trimtab::bench {

/// A stream of messages from rank 1, a process of its own, to rank 0.
class Lane {
 public:
  virtual ~Lane() = default;
  virtual void send(std::span<const std::byte> message) = 0;
  virtual void receive(std::span<std::byte> memory) = 0;
};

/// Messages both ways at once between two processes.
class TwoWays {
 public:
  virtual ~TwoWays() = default;
  /// Sends all of `out` and receives all of `in`, in the same order on both sides.
  virtual void exchange(std::span<const std::span<const std::byte>> out,
                        std::span<const std::span<std::byte>> in) = 0;
};

// Each meets its other side by the bootstrap; what goes wrong ends the process.
std::unique_ptr<Lane> make_trimtab_lane(const Bootstrap& bootstrap, bool is_tuned);
/// Tagged messages of UCX alone, with error handling by peer. Tuned: with the same segments, and the
/// rendezvous that is fastest over tcp.
std::unique_ptr<Lane> make_raw_ucx_lane(const Bootstrap& bootstrap, bool is_tuned);
std::unique_ptr<TwoWays> make_raw_ucx_ways(const Bootstrap& bootstrap, bool is_tuned);
std::unique_ptr<Lane> make_socket_lane(const Bootstrap& bootstrap);

}  // namespace trimtab::bench
