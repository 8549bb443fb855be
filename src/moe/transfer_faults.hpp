// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/clock.hpp>
#include <trimtab/core/ids.hpp>
#include <trimtab/core/topology.hpp>
#include <trimtab/migrate/program.hpp>
#include <trimtab/transport/faulty.hpp>
#include <trimtab/transport/transport.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace trimtab::moe {

/// What goes wrong with one transfer of a run. Transfers are the moves between ranks, numbered from 0 through
/// all steps that the ranks agree on, in the order of the program; so every rank numbers them alike.
struct TransferFault {
  FaultAction action = FaultAction::drop;  ///< drop, corrupt (a byte of the largest tensor) or delay.
  std::uint64_t at = 0;                    ///< The transfer's number.
  Clock::duration hold{};                  ///< Of a delay: how long it and what follows it on its way wait.
};

/// The faults of one rank's migrations: numbers its transfers, and spoils those that are to be. A transfer is
/// spoilt by the rank that sends it. One thread.
class TransferFaults {
 public:
  /// @param bundle_bytes  by layer, as registered
  TransferFaults(std::vector<TransferFault> faults, Topology topology, Rank self,
                 std::vector<std::size_t> bundle_bytes);

  /// The rank's migration channel with the faults in it, or as it is when there are none. Borrows this and
  /// the clock. Call it once.
  [[nodiscard]] std::unique_ptr<Transport> wrap(std::unique_ptr<Transport> channel, const Clock& clock);

  /// Call with every step that the ranks have agreed on, before its bytes move.
  void on_begin(const Step& step);

  /// By fault: whether it has struck here.
  [[nodiscard]] const std::vector<bool>& struck() const noexcept { return struck_; }

 private:
  class Channel;
  /// A transfer from here.
  struct Outgoing {
    Move move;
    std::optional<std::size_t> fault;  ///< Of `faults_`.
    std::size_t bytes_left = 0;        ///< To be posted still.
    bool is_begun = false;
  };
  /// Bundles to this rank wait until then, for the rest of the step.
  struct Blocked {
    Rank peer;
    Clock::time_point until;
  };

  void on_piece(std::span<const Leg> legs, Clock::time_point now, FaultScript& script);
  void strike(const Outgoing& transfer, std::span<const Leg> legs, Clock::time_point now,
              FaultScript& script);
  [[nodiscard]] std::optional<std::size_t> find(std::uint64_t number) const noexcept;

  std::vector<TransferFault> faults_;
  std::vector<bool> struck_;
  Topology topology_;
  Rank self_;
  std::vector<std::size_t> bundle_bytes_;
  std::uint64_t num_started_ = 0;   ///< Transfers of all steps so far.
  std::vector<Outgoing> outgoing_;  ///< Of the step, in the order of sending.
  std::size_t num_posted_ = 0;      ///< Of `outgoing_`, wholly.
  std::optional<Blocked> blocked_;
};

}  // namespace trimtab::moe
