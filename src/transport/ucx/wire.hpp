// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace trimtab::ucx {

/// What an active message says. A message is either one `message`, or an `offer` that its receive answers by
/// a `grant`, upon which its bytes follow in `data`: nothing large is ever sent that has no memory to go to.
enum class Kind : std::uint8_t {
  hello,     ///< The first on a connection.
  message,   ///< A whole message.
  offer,     ///< `size` bytes could be sent.
  withdraw,  ///< The offer `id` is taken back; a grant of it has met nobody.
  taken,     ///< All of the offer `id` has come.
  bye,       ///< The end has closed; it has sent `size` data in all.
  grant,     ///< The offer `id` has met its receive.
  drop,      ///< The receive of `id` wants no (more) data: too small, or cancelled.
  data,      ///< A piece of the offer `id`, at `offset`.
  credit,    ///< Of the messages sent, `size` bytes are no longer held.
  address,   ///< Of the worker for the `id`-th channel opened from this one.
  bye_ack,   ///< All that came before the bye was handled.
};

/// UCX may deliver messages of unlike sizes out of order. What makes the streams is handled in the order of
/// sending; what only answers it is not.
[[nodiscard]] constexpr bool is_ordered(Kind kind) noexcept { return kind <= Kind::bye; }

/// Before every active message. Between machines of one kind: numbers as they lie in memory.
struct Header {
  Kind kind = Kind::hello;
  std::int32_t source = 0;  ///< The sending rank.
  std::uint32_t tag = 0;
  std::uint64_t order = 0;  ///< Counts what is ordered, by sender and receiver.
  std::uint64_t id = 0;     ///< Of an offer: its `order`.
  std::uint64_t size = 0;
  std::uint64_t offset = 0;
};

/// Up to here a message is sent whole, and kept by the receiving end until its receive comes.
inline constexpr std::size_t eager_bytes = std::size_t{32} << 10;
/// How much one end keeps for each peer; what goes beyond is offered. A message counts as its size and this
/// much.
inline constexpr std::size_t eager_window_bytes = std::size_t{256} << 10;
inline constexpr std::size_t eager_overhead_bytes = 128;

[[nodiscard]] constexpr std::size_t eager_cost(std::size_t size_bytes) noexcept {
  return size_bytes + eager_overhead_bytes;
}

}  // namespace trimtab::ucx
