// SPDX-License-Identifier: Apache-2.0
#include "lanes.hpp"

#include "forked.hpp"
#include "transport/socket.hpp"

#include <trimtab/transport/ucx.hpp>

namespace trimtab::bench {
namespace {

class TrimtabLane final : public Lane {
 public:
  TrimtabLane(const Bootstrap& bootstrap, bool is_tuned)
      : session_(value_of(UcxSession::start(bootstrap, {.is_tuned = is_tuned}))),
        end_(value_of(make_ucx_transport(session_))) {}

  void send(std::span<const std::byte> message) override { finish(send_leg(Rank{0}, Tag{1}, message)); }
  void receive(std::span<std::byte> memory) override { finish(receive_leg(Rank{1}, Tag{1}, memory)); }

 private:
  void finish(const Leg& leg) {
    const Ticket ticket = value_of(end_->post({&leg, 1}));
    while (value_of(end_->poll(ticket, std::chrono::milliseconds(100))) == Progress::pending) {
    }
  }

  UcxSession session_;
  std::unique_ptr<Transport> end_;
};

class SocketLane final : public Lane {
 public:
  explicit SocketLane(const Bootstrap& bootstrap) : socket_(meet(bootstrap)) {}

  void send(std::span<const std::byte> message) override {
    while (!message.empty()) {
      const std::size_t size = value_of(socket_.send_some(message));
      message = message.subspan(size);
      if (size == 0) socket_.wait(false, std::chrono::seconds(1));
    }
  }
  void receive(std::span<std::byte> memory) override {
    while (!memory.empty()) {
      const std::size_t size = value_of(socket_.receive_some(memory));
      memory = memory.subspan(size);
      if (size == 0) socket_.wait(true, std::chrono::seconds(1));
    }
  }

 private:
  static Socket meet(const Bootstrap& bootstrap) {
    if (bootstrap.rank != Rank{0})
      return value_of(Socket::connect(bootstrap.host, bootstrap.port, std::chrono::seconds(10)));
    bootstrap.listening->wait(true, std::chrono::seconds(10));
    return bootstrap.listening->accept();
  }

  Socket socket_;
};

}  // namespace

std::unique_ptr<Lane> make_trimtab_lane(const Bootstrap& bootstrap, bool is_tuned) {
  return std::make_unique<TrimtabLane>(bootstrap, is_tuned);
}

std::unique_ptr<Lane> make_socket_lane(const Bootstrap& bootstrap) {
  return std::make_unique<SocketLane>(bootstrap);
}

}  // namespace trimtab::bench
