// SPDX-License-Identifier: Apache-2.0
#include <trimtab/transport/bootstrap.hpp>

#include "transport/bootstrap_frame.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cstring>
#include <thread>

namespace trimtab {
namespace {

using Blobs = std::vector<std::vector<std::byte>>;
using std::chrono::milliseconds;
using time_point = std::chrono::steady_clock::time_point;

/// Between looks at what else may have happened.
constexpr milliseconds one_wait{50};

/// How long a rank has to take the answer, once there is one.
constexpr std::chrono::seconds answer_time{5};

/// How long ranks that have not called yet are waited for when the others are refused already.
constexpr std::chrono::seconds straggler_time{2};

bool is_over(time_point deadline) { return std::chrono::steady_clock::now() >= deadline; }

std::string place(const Bootstrap& bootstrap) {
  return fmt::format("bootstrap of rank {} at {}:{}", bootstrap.rank.value(), bootstrap.host, bootstrap.port);
}

std::int64_t in_ms(Clock::duration time) { return std::chrono::duration_cast<milliseconds>(time).count(); }

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

std::vector<std::byte> pack(const Blobs& blobs) {
  std::vector<std::byte> packed;
  for (const auto& blob : blobs) {
    const auto size = static_cast<std::uint32_t>(blob.size());
    const auto bytes = std::as_bytes(std::span(&size, 1));
    packed.insert(packed.end(), bytes.begin(), bytes.end());
    packed.insert(packed.end(), blob.begin(), blob.end());
  }
  return packed;
}

Result<Blobs> unpack(std::span<const std::byte> packed, std::int32_t num_ranks) {
  Blobs blobs;
  while (packed.size() >= sizeof(std::uint32_t)) {
    std::uint32_t size = 0;
    std::memcpy(&size, packed.data(), sizeof size);
    packed = packed.subspan(sizeof size);
    if (size > packed.size()) break;
    blobs.emplace_back(packed.begin(), packed.begin() + size);
    packed = packed.subspan(size);
  }
  if (packed.empty() && blobs.size() == static_cast<std::size_t>(num_ranks)) return blobs;
  return failure(Errc::corrupt, fmt::format("bootstrap: {} parts instead of {}", blobs.size(), num_ranks));
}

/// Until all is sent. False when the other side has gone or the time is over.
bool send_all(const Socket& socket, std::span<const std::byte> bytes, time_point deadline) {
  while (!bytes.empty() && !is_over(deadline)) {
    const Result<std::size_t> size = socket.send_some(bytes);
    if (!size) return false;
    bytes = bytes.subspan(*size);
    if (*size == 0) socket.wait(false, one_wait);
  }
  return bytes.empty();
}

/// One that has connected to rank 0.
struct Caller {
  Socket socket;
  FrameReader frame{max_blob_bytes};
  bool has_gone = false;  ///< Or is not one of ours: others may knock at any port.
  bool is_complete = false;
};

/// Rank 0's side.
class Host {
 public:
  Host(const Bootstrap& bootstrap, std::span<const std::byte> mine)
      : bootstrap_(bootstrap), blobs_(static_cast<std::size_t>(bootstrap.num_ranks)) {
    blobs_[0].assign(mine.begin(), mine.end());
    has_come_.assign(blobs_.size(), false);
    has_come_[0] = true;
  }

  Result<Blobs> gather(const Socket& listening, time_point deadline) {
    Status come;
    while (come && num_come_ < bootstrap_.num_ranks) {
      if (is_over(deadline)) come = late();
      wait(listening);
      accept(listening);
      for (Caller& caller : callers_) {
        if (come) come = read(caller);
      }
    }
    if (!come && come.error().code != Errc::timeout) await_stragglers(listening);
    answer(come);
    if (!come) return failure(std::move(come));
    return std::move(blobs_);
  }

 private:
  void accept(const Socket& listening) {
    for (Socket socket = listening.accept(); socket.is_open(); socket = listening.accept()) {
      callers_.push_back({std::move(socket)});
    }
  }

  // A rank that calls after the others were refused would wait for its whole deadline.
  void await_stragglers(const Socket& listening) {
    const time_point latest = std::chrono::steady_clock::now() + straggler_time;
    const auto num_expected = static_cast<std::size_t>(bootstrap_.num_ranks) - 1;
    while (callers_.size() < num_expected && !is_over(latest)) {
      listening.wait(true, one_wait);
      accept(listening);
    }
  }

  void wait(const Socket& listening) const {
    std::vector<pollfd> sockets{{listening.fd(), POLLIN, 0}};
    for (const Caller& caller : callers_) {
      if (!caller.is_complete && !caller.has_gone) sockets.push_back({caller.socket.fd(), POLLIN, 0});
    }
    ::poll(sockets.data(), sockets.size(), static_cast<int>(one_wait.count()));
  }

  Status read(Caller& caller) {
    if (caller.is_complete || caller.has_gone) return {};
    const Result<bool> is_complete = caller.frame.read_some(caller.socket);
    if (is_complete) {
      caller.is_complete = *is_complete;
      return caller.is_complete ? take(caller.frame) : Status();
    }
    caller.has_gone = true;
    if (is_complete.error().code != Errc::version_mismatch) return {};
    return failure(Errc::version_mismatch, place(bootstrap_) + ": a rank has " + is_complete.error().message);
  }

  Status take(FrameReader& frame) {
    const FrameHeader& header = frame.header();
    const std::string who =
        fmt::format("{}: a process that says it is rank {}", place(bootstrap_), header.rank);
    FrameHeader own;
    std::memcpy(&own, make_frame(bootstrap_, Errc::ok, {}).data(), sizeof own);
    if (header.job != own.job)
      return refuse(who + " belongs to another job (TRIMTAB_JOB or the launcher's id)");
    if (header.num_ranks != bootstrap_.num_ranks)
      return refuse(fmt::format("{} of {} ranks has come, here they are {}", who, header.num_ranks,
                                bootstrap_.num_ranks));
    if (header.rank < 0 || header.rank >= bootstrap_.num_ranks)
      return refuse(fmt::format("{} has come, but ranks are 0..{}", who, bootstrap_.num_ranks - 1));
    const auto at = static_cast<std::size_t>(header.rank);
    if (has_come_[at])
      return refuse(fmt::format("{}: two processes say that they are rank {}", place(bootstrap_), at));
    has_come_[at] = true;
    ++num_come_;
    blobs_[at] = std::move(frame.payload());
    return {};
  }

  static Status refuse(std::string why) { return failure(Errc::invalid_argument, std::move(why)); }

  [[nodiscard]] Status late() const {
    const auto first = std::ranges::find(has_come_, false) - has_come_.begin();
    return failure(
        Errc::timeout,
        fmt::format("{}: {} of {} ranks have come after {} ms; the first missing is rank {}",
                    place(bootstrap_), num_come_, bootstrap_.num_ranks, in_ms(bootstrap_.deadline), first));
  }

  // Even to those who have said only half of it: so that every rank knows why.
  void answer(const Status& come) const {
    const std::vector<std::byte> frame =
        come ? make_frame(bootstrap_, Errc::ok, pack(blobs_))
             : make_frame(bootstrap_, come.error().code, bytes_of(come.error().message));
    const time_point deadline = std::chrono::steady_clock::now() + answer_time;
    for (const Caller& caller : callers_) {
      if (!caller.has_gone) send_all(caller.socket, frame, deadline);
    }
  }

  const Bootstrap& bootstrap_;
  Blobs blobs_;
  std::vector<bool> has_come_;
  std::int32_t num_come_ = 1;
  std::vector<Caller> callers_;
};

Result<Blobs> gather_as_host(const Bootstrap& bootstrap, std::span<const std::byte> mine,
                             time_point deadline) {
  Host host(bootstrap, mine);
  if (bootstrap.listening) return host.gather(*bootstrap.listening, deadline);
  Result<Socket> listening = Socket::listen(bootstrap.host, bootstrap.port);
  if (!listening)
    listening = Socket::listen("", bootstrap.port);  // Others may know this host by another address.
  if (!listening)
    return failure(Errc::io, place(bootstrap) + ": cannot listen: " + listening.error().message);
  return host.gather(*listening, deadline);
}

/// Rank 0 may come later than this rank.
Result<Socket> call(const Bootstrap& bootstrap, time_point deadline) {
  constexpr std::chrono::seconds longest_try{2};
  while (true) {
    Result<Socket> socket = Socket::connect(bootstrap.host, bootstrap.port, longest_try);
    if (socket) return socket;
    if (is_over(deadline)) {
      return failure(Errc::timeout,
                     fmt::format("{}: rank 0 could not be reached in {} ms: {}", place(bootstrap),
                                 in_ms(bootstrap.deadline), socket.error().message));
    }
    std::this_thread::sleep_for(milliseconds(5));
  }
}

Result<Blobs> gather_as_caller(const Bootstrap& bootstrap, std::span<const std::byte> mine,
                               time_point deadline) {
  const Result<Socket> socket = call(bootstrap, deadline);
  if (!socket) return tl::unexpected(socket.error());
  // When it fails, rank 0 may still have said why.
  send_all(*socket, make_frame(bootstrap, Errc::ok, mine), deadline);
  FrameReader answer((max_blob_bytes + sizeof(std::uint32_t)) *
                     static_cast<std::size_t>(bootstrap.num_ranks));
  const time_point latest = deadline + answer_time;  // Rank 0's own deadline may be a little later.
  while (true) {
    const Result<bool> is_complete = answer.read_some(*socket);
    if (!is_complete)
      return failure(is_complete.error().code, place(bootstrap) + ": rank 0: " + is_complete.error().message);
    if (*is_complete) break;
    if (is_over(latest))
      return failure(Errc::timeout, place(bootstrap) + ": rank 0 has not answered in time");
    socket->wait(true, one_wait);
  }
  const std::vector<std::byte>& payload = answer.payload();
  const auto code = static_cast<Errc>(answer.header().code);
  if (code == Errc::ok) return unpack(payload, bootstrap.num_ranks);
  return failure(code, std::string(reinterpret_cast<const char*>(payload.data()), payload.size()));
}

}  // namespace

Result<Blobs> bootstrap_all_gather(const Bootstrap& bootstrap, std::span<const std::byte> mine) {
  if (mine.size() > max_blob_bytes) {
    return failure(Errc::invalid_argument, fmt::format("{}: {} bytes > {}, the most of one rank",
                                                       place(bootstrap), mine.size(), max_blob_bytes));
  }
  if (bootstrap.num_ranks == 1) return Blobs{{mine.begin(), mine.end()}};
  const time_point deadline = std::chrono::steady_clock::now() + bootstrap.deadline;
  return bootstrap.rank == Rank{0} ? gather_as_host(bootstrap, mine, deadline)
                                   : gather_as_caller(bootstrap, mine, deadline);
}

}  // namespace trimtab
