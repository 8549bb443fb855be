// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/result.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace trimtab {

/// A TCP socket that never blocks, owned. Move-only; closed on exec.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int owned) noexcept : fd_(owned) {}
  ~Socket();
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept;

  /// Port 0: one that is free. @return `io`.
  static Result<Socket> listen(const std::string& host, std::uint16_t port);
  /// One try, for at most about `budget`. @return `io` when nobody listens there, or its name is not known.
  static Result<Socket> connect(const std::string& host, std::uint16_t port,
                                std::chrono::milliseconds budget);
  /// One that waits to be accepted; not open when there is none.
  [[nodiscard]] Socket accept() const noexcept;

  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] bool is_open() const noexcept { return fd_ >= 0; }
  [[nodiscard]] std::uint16_t local_port() const noexcept;

  /// What could be moved now, maybe nothing. @return `peer_lost` when the other side has gone.
  Result<std::size_t> send_some(std::span<const std::byte> bytes) const;
  Result<std::size_t> receive_some(std::span<std::byte> bytes) const;

  /// Returns when there may be something to read (or room to write), or the time is over.
  void wait(bool for_reading, std::chrono::milliseconds budget) const noexcept;

 private:
  int fd_ = -1;
};

}  // namespace trimtab
