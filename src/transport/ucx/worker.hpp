// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "transport/ucx/context.hpp"
#include "transport/ucx/wire.hpp"

#include <trimtab/core/ids.hpp>

#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <vector>

namespace trimtab::ucx {

/// Told by a worker what happens, from inside `progress`, `send` and `shut`.
class WorkerListener {
 public:
  virtual ~WorkerListener() = default;
  /// `payload` may be read until this returns.
  virtual void arrived(const Header& header, std::span<const std::byte> payload) = 0;
  /// The payload of a send is read no more; `is_sent` is false when it was given up. `what` as given to
  /// `send`.
  virtual void sent(Rank to, void* what, bool is_sent) = 0;
  /// Nothing can be sent to this rank any more. Once per rank.
  virtual void broke(Rank rank) = 0;
};

/// A UCX worker with a connection to each other rank: active messages with a header, error handling by peer.
/// Used by one thread at a time.
class Worker {
 public:
  /// Borrows the listener. @return `unavailable`.
  static Result<std::unique_ptr<Worker>> open(std::shared_ptr<Context> context, std::int32_t num_ranks,
                                              WorkerListener& listener);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  [[nodiscard]] const std::vector<std::byte>& address() const noexcept { return address_; }
  [[nodiscard]] const std::shared_ptr<Context>& context() const noexcept { return context_; }
  /// Needs both sides' progress to come about. @return `io`.
  Status connect(Rank rank, std::span<const std::byte> address);

  /// Borrows the payload until the listener hears of it; `what` is null when it need not hear. May tell it
  /// before this returns.
  void send(Rank to, const Header& header, std::span<const std::byte> payload, void* what);
  /// The same with a payload of its own.
  void send_copy(Rank to, const Header& header, std::span<const std::byte> payload);

  /// Whether anything has happened.
  bool progress();
  /// Sleeps until something may have happened, for at most `budget`.
  void sleep(std::chrono::nanoseconds budget);
  /// Sends that have not ended.
  [[nodiscard]] std::size_t num_sending() const noexcept { return num_sending_; }

  /// Breaks a connection: nothing goes to or comes from this rank any more. Sends under way are given up, in
  /// the calls of `progress` that follow. The listener hears of those alone.
  void drop(Rank rank);
  /// Breaks every connection; sends under way are given up. In bounded time, whatever the peers do.
  void shut();

  /// What UCX chose for the connection, in its own words; for people.
  [[nodiscard]] std::string describe(Rank rank) const;
  /// The same of all devices that UCX found.
  [[nodiscard]] std::string describe_devices() const;

 private:
  struct Connection {
    Worker* worker = nullptr;
    Rank rank;
    ucp_ep_h endpoint = nullptr;
    bool is_broken = false;
  };
  struct Sending {
    Worker* worker = nullptr;
    Rank to;
    void* what = nullptr;
    Header header;
    std::vector<std::byte> copy;
  };

  Worker(std::shared_ptr<Context> context, std::int32_t num_ranks, WorkerListener& listener);
  Status start();
  Sending& take_sending();
  void submit(Sending& sending, std::span<const std::byte> payload);
  void take(Sending& sending, void* request);
  void end(Sending& sending, ucs_status_t status);
  void set_broken(Connection& connection);
  void start_closing(Connection& connection);
  void reap_closed();

  static ucs_status_t on_arrival(void* worker, const void* header, std::size_t header_bytes, void* data,
                                 std::size_t data_bytes, const ucp_am_recv_param_t* param);
  static void on_sent(void* request, ucs_status_t status, void* sending);
  static void on_error(void* connection, ucp_ep_h endpoint, ucs_status_t status);

  std::shared_ptr<Context> context_;
  WorkerListener& listener_;
  ucp_worker_h handle_ = nullptr;
  int event_fd_ = -1;
  std::vector<std::byte> address_;
  std::vector<Connection> connections_;  ///< By rank.
  std::deque<Sending> sendings_;         ///< Do not move: UCX reads their headers.
  std::vector<Sending*> free_sendings_;
  std::size_t num_sending_ = 0;
  std::vector<void*> closing_;  ///< Requests of UCX.
};

}  // namespace trimtab::ucx
