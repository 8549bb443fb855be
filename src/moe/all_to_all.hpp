// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/clock.hpp>
#include <trimtab/core/ids.hpp>
#include <trimtab/core/result.hpp>
#include <trimtab/core/topology.hpp>
#include <trimtab/route/routing_table.hpp>
#include <trimtab/transport/transport.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace trimtab::moe {

/// What every message of a forward must agree on between sender and receiver.
struct BatchKey {
  TableIdentity table;
  Forward forward;
  LayerId layer;
};

enum class MessageKind : std::uint32_t {
  rows = 0x574f5254,     ///< Tokens to an expert.
  answers = 0x534e4154,  ///< An expert's outputs, in the order of the rows.
};

/// The first bytes of every message.
struct MessageHeader {
  MessageKind kind{};
  std::uint32_t split_version = 0;
  std::uint64_t epoch = 0;
  std::uint64_t forward = 0;
  std::int32_t layer = 0;
  std::uint32_t num_rows = 0;
};

[[nodiscard]] MessageHeader make_header(MessageKind kind, const BatchKey& key, std::size_t num_rows) noexcept;

/// Checks what `sender` wrote.
/// @return `corrupt` for another kind or more than `max_rows` rows; `version_mismatch` naming both sides for
///         another table, forward or layer.
[[nodiscard]] Status check_header(const MessageHeader& header, MessageKind kind, const BatchKey& key,
                                  Rank sender, std::size_t max_rows);

/// One message from every live rank to every other, each as long as it is.
///
/// After an error messages may still be in flight: the caller closes the channel, or calls `give_up` and
/// waits for `has_let_go`, before it touches the memory or runs another.
class AllToAll {
 public:
  /// Borrows channel, topology and clock; who is alive may change between two runs. `while_waiting`, if any,
  /// is called again and again while a message is awaited; its error ends the wait. `on_unheard`, if any, is
  /// told once of every rank whose message has not come within half of the deadline.
  AllToAll(Transport& channel, const Topology& topology, const Clock& clock, Clock::duration deadline,
           std::function<Status()> while_waiting, std::function<void(Rank)> on_unheard = {});

  /// `out[r]` goes to rank r, `in[r]` receives from it; this rank's own entries are ignored.
  /// @return `timeout` naming the rank waited for, or the transport's error.
  Status run(Tag tag, std::span<const std::span<const std::byte>> out,
             std::span<const std::span<std::byte>> in);

  /// Gives up what an error has left under way.
  void give_up();
  /// Looks whether the memory of what was given up is free.
  /// @return `timeout` when the channel has not let go of it within the deadline.
  Result<bool> has_let_go();

 private:
  struct Pending {
    Ticket ticket;
    Rank peer;
    Side side;
    bool is_done = false;
  };

  Status post(Tag tag, std::span<const std::span<const std::byte>> out,
              std::span<const std::span<std::byte>> in);
  Status post_leg(const Leg& leg);
  Status wait_for_all();
  Status wait_for(Pending& pending, Clock::time_point begun);
  Status tell_unheard();

  [[nodiscard]] bool is_peer(Rank rank) const noexcept {
    return rank != channel_.rank() && topology_.is_alive(rank);
  }

  Transport& channel_;
  const Topology& topology_;
  const Clock& clock_;
  Clock::duration deadline_;
  std::function<Status()> while_waiting_;
  std::function<void(Rank)> on_unheard_;
  bool has_told_ = false;
  std::vector<Pending> pending_;
  Clock::time_point give_up_until_;
};

}  // namespace trimtab::moe
