// SPDX-License-Identifier: Apache-2.0
#include "conformance/ends.hpp"

#include <algorithm>
#include <cstring>

namespace trimtab::test {

Bytes pattern(Rank from, Rank to, std::uint32_t message, std::size_t size_bytes) {
  const auto seed = static_cast<std::uint64_t>(from.value()) * 1'000'003 +
                    static_cast<std::uint64_t>(to.value()) * 10'007 + message * 101ULL;
  Bytes bytes(size_bytes);
  std::uint64_t state = seed * 0x9e3779b97f4a7c15ULL + 1;
  for (std::size_t at = 0; at < size_bytes; at += sizeof state) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    const std::uint64_t word = state ^ (state >> 32);  // the low bits alone repeat soon
    std::memcpy(bytes.data() + at, &word, std::min(sizeof word, size_bytes - at));
  }
  return bytes;
}

std::vector<Rank> others(const Transport& end) {
  std::vector<Rank> found;
  for (Rank rank : ids<Rank>(end.num_ranks())) {
    if (rank != end.rank()) found.push_back(rank);
  }
  return found;
}

Ticket post(Transport& end, const Leg& leg) { return post(end, {&leg, 1}); }

Ticket post(Transport& end, std::span<const Leg> legs) {
  const Result<Ticket> ticket = end.post(legs);
  EXPECT_TRUE(ticket) << (ticket ? "" : ticket.error().message);
  return ticket ? *ticket : Ticket{};
}

Result<Progress> finish(Transport& end, Ticket ticket) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (std::chrono::steady_clock::now() < deadline) {
    Result<Progress> progress = end.poll(ticket, std::chrono::milliseconds(100));
    if (!progress || *progress != Progress::pending) return progress;
  }
  ADD_FAILURE() << "rank " << end.rank().value() << ": ticket " << ticket.value() << " is pending for ever";
  return failure(Errc::timeout, "a minute passed");
}

void expect_done(Transport& end, Ticket ticket) {
  const Result<Progress> progress = finish(end, ticket);
  ASSERT_TRUE(progress) << progress.error().message;
  EXPECT_EQ(*progress, Progress::done);
}

void send(Transport& end, Rank to, Tag tag, std::span<const std::byte> message) {
  expect_done(end, post(end, send_leg(to, tag, message)));
}

Bytes receive(Transport& end, Rank from, Tag tag, std::size_t size_bytes) {
  Bytes message(size_bytes);
  expect_done(end, post(end, receive_leg(from, tag, message)));
  return message;
}

void meet(Transport& end) {
  const Status met = barrier(end, SteadyClock(), {.tag = barrier_tag, .deadline = std::chrono::minutes(1)});
  EXPECT_TRUE(met) << (met ? "" : met.error().message);
}

}  // namespace trimtab::test
