// SPDX-License-Identifier: Apache-2.0
#include "transport/socket.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace trimtab {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Error io_error(const std::string& host, std::uint16_t port, std::string_view what) {
  return {Errc::io, fmt::format("{}:{}: {}", host, port, what)};
}

Result<Addresses> resolve(const std::string& host, std::uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const int code =
      getaddrinfo(host.empty() ? nullptr : host.c_str(), fmt::format("{}", port).c_str(), &hints, &found);
  if (code != 0) return tl::unexpected(io_error(host, port, gai_strerror(code)));
  return Addresses(found, &freeaddrinfo);
}

Socket open_for(const addrinfo& address) {
  return Socket(::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

/// @return an errno, or 0.
int listen_at(const Socket& socket, const addrinfo& address) {
  const int yes = 1;
  ::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(socket.fd(), address.ai_addr, address.ai_addrlen) != 0) return errno;
  return ::listen(socket.fd(), SOMAXCONN) != 0 ? errno : 0;
}

int connect_to(const Socket& socket, const addrinfo& address, std::chrono::milliseconds budget) {
  if (::connect(socket.fd(), address.ai_addr, address.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd waiting{socket.fd(), POLLOUT, 0};
  if (::poll(&waiting, 1, static_cast<int>(budget.count())) <= 0) return ETIMEDOUT;
  int code = 0;
  socklen_t size = sizeof code;
  ::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &code, &size);
  return code;
}

template <class Try>
Result<Socket> first_that_works(const std::string& host, std::uint16_t port, int flags, const Try& attempt) {
  Result<Addresses> addresses = resolve(host, port, flags);
  if (!addresses) return failure(std::move(addresses));
  int code = EADDRNOTAVAIL;
  for (const addrinfo* at = addresses->get(); at != nullptr; at = at->ai_next) {
    Socket socket = open_for(*at);
    code = socket.is_open() ? attempt(socket, *at) : errno;
    if (code == 0) return socket;
  }
  return tl::unexpected(io_error(host, port, std::strerror(code)));
}

Result<std::size_t> moved(ssize_t size, bool is_end) {
  if (size > 0) return static_cast<std::size_t>(size);
  if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return std::size_t{0};
  return failure(Errc::peer_lost, is_end ? "the other side closed the connection" : std::strerror(errno));
}

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Result<Socket> Socket::listen(const std::string& host, std::uint16_t port) {
  return first_that_works(host, port, AI_PASSIVE, listen_at);
}

Result<Socket> Socket::connect(const std::string& host, std::uint16_t port,
                               std::chrono::milliseconds budget) {
  return first_that_works(host, port, 0, [&](const Socket& socket, const addrinfo& address) {
    return connect_to(socket, address, budget);
  });
}

Socket Socket::accept() const noexcept {
  return Socket(::accept4(fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

std::uint16_t Socket::local_port() const noexcept {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

Result<std::size_t> Socket::send_some(std::span<const std::byte> bytes) const {
  return moved(::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL), false);
}

Result<std::size_t> Socket::receive_some(std::span<std::byte> bytes) const {
  const ssize_t size = ::recv(fd_, bytes.data(), bytes.size(), 0);
  return moved(size, size == 0);
}

void Socket::wait(bool for_reading, std::chrono::milliseconds budget) const noexcept {
  pollfd waiting{fd_, static_cast<short>(for_reading ? POLLIN : POLLOUT), 0};
  ::poll(&waiting, 1, static_cast<int>(budget.count()));
}

}  // namespace trimtab
