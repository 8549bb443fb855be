// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/clock.hpp>
#include <trimtab/transport/collectives.hpp>
#include <trimtab/transport/transport.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

// What the tests of transports say often.

namespace trimtab::test {

using Bytes = std::vector<std::byte>;

/// Tags that no test uses for its own messages.
inline constexpr Tag barrier_tag{30'000};

/// Bytes that tell sender, receiver, message and position apart.
[[nodiscard]] Bytes pattern(Rank from, Rank to, std::uint32_t message, std::size_t size_bytes);

/// The ranks of a channel but this one.
[[nodiscard]] std::vector<Rank> others(const Transport& end);

/// Posts one leg; a refusal fails the test.
Ticket post(Transport& end, const Leg& leg);
Ticket post(Transport& end, std::span<const Leg> legs);

/// Polls until terminal. Only a broken transport lets this wait its minute: then it fails the test and
/// returns a `timeout`.
Result<Progress> finish(Transport& end, Ticket ticket);

/// `finish`, where anything but `done` fails the test.
void expect_done(Transport& end, Ticket ticket);

void send(Transport& end, Rank to, Tag tag, std::span<const std::byte> message);
[[nodiscard]] Bytes receive(Transport& end, Rank from, Tag tag, std::size_t size_bytes);

/// All ranks come here before any goes on. Orders what different ranks do.
void meet(Transport& end);

/// Time that passes by looking at it, so that deadlines pass without waiting.
class LeapingClock final : public Clock {
 public:
  explicit LeapingClock(duration leap) : leap_(leap) {}
  [[nodiscard]] time_point now() const noexcept override {
    return time_point(leap_ * num_looks_.fetch_add(1));
  }

 private:
  duration leap_;
  mutable std::atomic<std::int64_t> num_looks_{0};
};

}  // namespace trimtab::test
