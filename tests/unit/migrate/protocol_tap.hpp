// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "migrate/control.hpp"
#include "migrate/message.hpp"

#include <trimtab/transport/transport.hpp>

#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

namespace trimtab::test {

/// What a rank's control messages were, and which of them are lost from now on. Shared by a Tap and its test.
struct TapScript {
  std::set<MessageKind> lost;   ///< Kinds that are logged but do not leave.
  std::optional<Errc> fails;    ///< Every post of a control message fails so.
  bool ignores_cancel = false;  ///< As back-ends do that cannot take a receive back.
  std::vector<Message> said;    ///< Every control message, in order, to every peer.
  std::vector<Rank> said_to;    ///< Of each message in `said`.
  std::vector<std::span<std::byte>>
      staged;  ///< Memory of every posted receive but those of control messages.
};

/// A rank's end of the migration channel that hears what the rank says, and can say it once more later: how a
/// message of an old attempt arrives in a new one.
class Tap final : public Transport {
 public:
  Tap(std::unique_ptr<Transport> inner, std::shared_ptr<TapScript> script)
      : inner_(std::move(inner)), script_(std::move(script)) {}
  ~Tap() override { join(); }

  [[nodiscard]] const Capabilities& capabilities() const noexcept override { return inner_->capabilities(); }
  [[nodiscard]] Rank rank() const noexcept override { return inner_->rank(); }
  [[nodiscard]] std::int32_t num_ranks() const noexcept override { return inner_->num_ranks(); }
  [[nodiscard]] bool can_reach(Rank peer) const noexcept override { return inner_->can_reach(peer); }

  Result<Ticket> post(std::span<const Leg> legs) override {
    std::vector<Leg> leaving;
    for (const Leg& leg : legs) {
      if (leg.tag != ControlChannel::tag && leg.side == Side::receive) script_->staged.push_back(leg.memory);
      const bool is_control = leg.tag == ControlChannel::tag && leg.side == Side::send;
      if (is_control && script_->fails) return failure(*script_->fails, "told to fail");
      if (!is_control || log(leg)) leaving.push_back(leg);
    }
    return inner_->post(leaving);
  }
  Result<Progress> poll(Ticket ticket, std::chrono::nanoseconds budget) override {
    return inner_->poll(ticket, budget);
  }
  void cancel(Ticket ticket) noexcept override {
    if (!script_->ignores_cancel) inner_->cancel(ticket);
  }
  Result<std::unique_ptr<Transport>> open_channel() override { return inner_->open_channel(); }
  [[nodiscard]] std::vector<Rank> take_peer_down_events() override { return inner_->take_peer_down_events(); }
  void close() noexcept override { inner_->close(); }
  void join() noexcept override { inner_->join(); }

  /// Sends `message` to `peer` again, past the log.
  void say_again(const Message& message, Rank peer) {
    const Leg leg =
        send_leg(peer, ControlChannel::tag, std::as_bytes(std::span(&again_.emplace_back(message), 1)));
    if (Result<Ticket> posted = inner_->post(std::span(&leg, 1)); !posted) again_.pop_back();
  }

 private:
  /// Whether the message leaves.
  bool log(const Leg& leg) {
    Message message;
    std::memcpy(&message, leg.memory.data(), sizeof message);
    script_->said.push_back(message);
    script_->said_to.push_back(leg.peer);
    return !script_->lost.contains(message.kind);
  }

  std::unique_ptr<Transport> inner_;
  std::shared_ptr<TapScript> script_;
  std::deque<Message> again_;  ///< Stable addresses: posted sends read them.
};

}  // namespace trimtab::test
