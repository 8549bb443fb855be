// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/clock.hpp>
#include <trimtab/transport/transport.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace trimtab {

/// What a collective is done over and how long it may take. Every rank of the channel calls the same
/// collectives in the same order; they use tag `tag` of the channel and no other.
struct CollectiveOptions {
  Tag tag;
  Clock::duration deadline = std::chrono::seconds(30);
  /// The ranks that take part, ascending, the caller among them; borrowed for the call. Empty: all of the
  /// channel.
  std::span<const Rank> members{};
  /// If any, called again and again while another rank is waited for; its error ends the collective. Borrowed
  /// for the call.
  const std::function<Status()>* while_waiting = nullptr;
};

// Each returns `timeout` naming the first rank waited for when the deadline passes: then the channel is not
// usable for further collectives under this tag. Results are the same bits on every rank. O(ranks) messages,
// through the lowest rank.

/// Adds `values` of all ranks, element by element, in place. All ranks pass the same length. Wraps like
/// unsigned on overflow.
[[nodiscard]] Status all_reduce_sum(Transport& channel, const Clock& clock, const CollectiveOptions& options,
                                    std::span<std::int64_t> values);

/// How many ranks take part.
[[nodiscard]] std::size_t num_members(const Transport& channel, const CollectiveOptions& options) noexcept;

/// Gathers `mine` of every member in rank order into `all`, where `all.size() == num_members * mine.size()`.
[[nodiscard]] Status all_gather(Transport& channel, const Clock& clock, const CollectiveOptions& options,
                                std::span<const std::byte> mine, std::span<std::byte> all);

/// Returns on no rank before every rank has called it.
[[nodiscard]] Status barrier(Transport& channel, const Clock& clock, const CollectiveOptions& options);

}  // namespace trimtab
