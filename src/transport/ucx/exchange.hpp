// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "transport/ucx/worker.hpp"

#include <trimtab/transport/transport.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace trimtab::ucx {

struct Posted;

/// One leg while its ticket is posted. Does not move.
struct OpenLeg {
  enum class State : std::uint8_t {
    waiting,    ///< A receive in its stream; a send that can go nowhere, for its peer is gone.
    whole,      ///< A send under way in one piece.
    offered,    ///< A send that waits for its receive.
    streaming,  ///< Has met its other half, and its bytes go over piece by piece.
    ended,
  };

  Leg leg;
  Posted* posted = nullptr;
  State state = State::waiting;
  std::uint64_t number = 0;         ///< Counts the legs of an end.
  std::uint64_t id = 0;             ///< Of the offer.
  std::size_t size_bytes = 0;       ///< Of the message, once it is known.
  std::size_t moved_bytes = 0;      ///< Handed to UCX, or received.
  std::uint32_t num_in_flight = 0;  ///< Sends that UCX may still read for.
  bool is_taken = false;            ///< The receiver has all of a send, or wants no more.
};

/// A ticket.
struct Posted {
  std::vector<OpenLeg> legs;
  std::size_t num_open = 0;
  std::optional<Error> error;
  bool is_cancelling = false;
  bool is_cancelled = false;  ///< A leg was given up.
};

/// A message, or the offer of one, that came before its receive.
struct Arrival {
  std::uint64_t id = 0;
  std::size_t size_bytes = 0;
  bool is_offer = false;
  std::vector<std::byte> payload;
};

/// Messages from one peer under one tag. Never both kinds of halves wait.
struct Stream {
  std::deque<Arrival> arrivals;
  std::deque<OpenLeg*> receives;
};

/// What came ahead of its turn.
struct Parked {
  Header header;
  std::vector<std::byte> payload;
};

/// What an end knows of another rank.
struct Peer {
  Rank rank;
  bool has_said_hello = false;
  bool is_gone = false;       ///< Broken or closed: nothing new comes of it.
  bool is_broken = false;     ///< Gone without a bye.
  bool is_gone_told = false;  ///< To the caller.
  bool has_acked_bye = false;

  std::uint64_t next_order = 0;  ///< Of what is sent.
  std::size_t eager_used_bytes = 0;
  std::uint32_t num_data_in_flight = 0;
  std::uint64_t num_data_sent = 0;
  std::unordered_map<std::uint64_t, OpenLeg*> offered;
  std::deque<OpenLeg*> sending;
  std::unordered_map<std::uint64_t, OpenLeg*>
      untaken;  ///< All of it was handed to UCX, which may still hold it.

  std::uint64_t awaited_order = 0;
  std::map<std::uint64_t, Parked> parked;
  std::size_t credit_bytes = 0;  ///< To be given back.
  std::uint64_t num_data_received = 0;
  std::optional<std::uint64_t> num_data_at_bye;
  std::unordered_map<std::uint32_t, Stream> streams;  ///< By tag; only those where something waits.
  std::unordered_map<std::uint64_t, OpenLeg*> receiving;
};

/// The messages of one end: matches sends and receives and moves their bytes. Memory of a receive is written
/// only from inside `progress`, so a receive that was given up is never written again.
class Exchange final : public WorkerListener {
 public:
  Exchange(Rank rank, std::int32_t num_ranks);

  /// Borrows the worker, which tells this what happens. Before anything else.
  void attach(Worker& worker) noexcept { worker_ = &worker; }
  void say_hello(Rank to);
  void send_address(Rank to, std::uint64_t channel, std::span<const std::byte> address);
  /// The address that `from` sent for the channel; null before it has come.
  [[nodiscard]] const std::vector<std::byte>* find_address(std::uint64_t channel, Rank from) const;
  void forget_addresses(std::uint64_t channel) { addresses_.erase(channel); }

  void start(OpenLeg& leg);
  void cancel(Posted& posted);
  /// Gives up all tickets and tells the peers that this end takes part no more. Receives nothing from now on.
  void close(std::span<Posted* const> tickets);
  /// Whether anything has happened.
  bool progress();

  /// A leg that waits for a peer that is gone.
  [[nodiscard]] const OpenLeg* find_lost(const Posted& posted) const;
  [[nodiscard]] const Peer& peer(Rank rank) const noexcept { return peers_[rank.index()]; }
  /// Nothing more comes of this rank, nor goes to it.
  void drop(Rank rank);
  void set_gone(Rank rank) { leave(peers_[rank.index()]); }
  /// Ranks gone that were not taken before.
  [[nodiscard]] std::vector<Rank> take_gone();
  /// Nothing is under way, and every peer that is there knows that this end has closed.
  [[nodiscard]] bool is_parted() const;

  void arrived(const Header& header, std::span<const std::byte> payload) override;
  void sent(Rank to, void* what, bool is_sent) override;
  void broke(Rank rank) override;

 private:
  [[nodiscard]] Peer& peer_of(const OpenLeg& leg) noexcept { return peers_[leg.leg.peer.index()]; }
  [[nodiscard]] Header header_to(Peer& to, Kind kind);
  void tell(Peer& to, Kind kind, std::uint64_t id, std::size_t size_bytes = 0);

  void send_whole(Peer& to, OpenLeg& leg);
  void offer(Peer& to, OpenLeg& leg);
  bool pump(Peer& to);
  void send_piece(Peer& to, OpenLeg& leg);

  void handle_in_order(Peer& from, const Header& header, std::span<const std::byte> payload);
  void handle(Peer& from, const Header& header, std::span<const std::byte> payload);
  void take_message(Peer& from, const Header& header, std::span<const std::byte> payload);
  void take_offer(Peer& from, const Header& header);
  void take_withdraw(Peer& from, const Header& header);
  void wait_again(Peer& from, OpenLeg& leg);
  void take_grant(Peer& from, std::uint64_t id);
  void take_taken(Peer& from, std::uint64_t id);
  void take_drop(Peer& from, std::uint64_t id);
  void take_data(Peer& from, const Header& header, std::span<const std::byte> payload);
  void check_bye(Peer& from);
  void leave(Peer& from);
  static void strand(OpenLeg& leg);

  void match(Peer& from, std::uint32_t tag);
  void deliver(OpenLeg& leg, std::span<const std::byte> payload);
  void accept(Peer& from, OpenLeg& leg, const Arrival& offer);
  void give_credit(Peer& from, std::size_t size_bytes);

  void cancel(OpenLeg& leg);
  void cancel_send(Peer& to, OpenLeg& leg);
  void withdraw(Peer& to, OpenLeg& leg);
  void cancel_receive(Peer& from, OpenLeg& leg);
  static void finish(OpenLeg& leg);
  static void fail(OpenLeg& leg, std::size_t message_bytes);
  static void give_up(OpenLeg& leg);

  Rank rank_;
  Worker* worker_ = nullptr;
  bool is_closed_ = false;
  std::uint64_t num_legs_ = 0;
  std::vector<Peer> peers_;  ///< By rank; this one's own is not used.
  std::map<std::uint64_t, std::unordered_map<std::int32_t, std::vector<std::byte>>> addresses_;
};

}  // namespace trimtab::ucx
