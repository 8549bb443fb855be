// SPDX-License-Identifier: Apache-2.0
#include <trimtab/transport/transport.hpp>

namespace trimtab {

Leg send_leg(Rank peer, Tag tag, std::span<const std::byte> memory, LegWatcher* watcher) noexcept {
  // A Leg has one kind of memory for both sides; back-ends only read that of a send.
  auto* const readable = const_cast<std::byte*>(memory.data());
  return {Side::send, peer, tag, {readable, memory.size()}, watcher};
}

Leg receive_leg(Rank peer, Tag tag, std::span<std::byte> memory, LegWatcher* watcher) noexcept {
  return {Side::receive, peer, tag, memory, watcher};
}

}  // namespace trimtab
