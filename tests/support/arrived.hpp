// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/transport/transport.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <vector>

namespace trimtab::test {

using Bytes = std::vector<std::byte>;

/// For transports on a clock that stands still.
inline constexpr std::chrono::nanoseconds at_once{0};

/// What has come from rank 0 to `end` under `tag`, or nothing. The receive is given up then.
inline Bytes arrived(Transport& end, std::size_t size, Tag tag) {
  Bytes memory(size, std::byte{0});
  const Leg leg = receive_leg(Rank{0}, tag, memory);
  const Ticket ticket = *end.post({&leg, 1});
  if (*end.poll(ticket, at_once) == Progress::done) return memory;
  end.cancel(ticket);
  EXPECT_EQ(*end.poll(ticket, at_once), Progress::cancelled);
  return {};
}

}  // namespace trimtab::test
