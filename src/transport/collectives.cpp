// SPDX-License-Identifier: Apache-2.0
#include <trimtab/transport/collectives.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <vector>

namespace trimtab {
namespace {

constexpr std::chrono::milliseconds longest_poll{1};  // the deadline's clock may be another than the poll's

using Memory = std::vector<std::byte>;

/// One collective on one rank.
struct Call {
  Transport& channel;
  const Clock& clock;
  Tag tag;
  Clock::duration patience;
  Clock::time_point deadline;
  std::string_view name;
  std::vector<Rank> members;
  const std::function<Status()>* while_waiting;

  Call(Transport& on, const Clock& by, const CollectiveOptions& options, std::string_view named)
      : channel(on), clock(by), tag(options.tag), name(named), while_waiting(options.while_waiting) {
    constexpr Clock::duration longest = std::chrono::hours(24 * 365);  // keeps the sum representable
    patience = std::min(options.deadline, longest);
    deadline = clock.now() + patience;
    members.assign(options.members.begin(), options.members.end());
    for (Rank rank : ids<Rank>(options.members.empty() ? channel.num_ranks() : 0)) members.push_back(rank);
  }

  [[nodiscard]] Rank root() const { return members.front(); }
  [[nodiscard]] bool is_root() const { return channel.rank() == root(); }
};

// A frame is one rank's payload behind its length, so that ranks that disagree about lengths are found out.
constexpr std::size_t header_bytes = sizeof(std::uint64_t);

std::size_t frame_bytes(std::size_t payload_bytes) { return header_bytes + payload_bytes; }

void write_frame(std::span<std::byte> frame, std::span<const std::byte> payload) {
  const std::uint64_t length = payload.size();
  std::memcpy(frame.data(), &length, header_bytes);
  std::ranges::copy(payload, frame.begin() + header_bytes);
}

Memory make_frame(std::span<const std::byte> payload) {
  Memory frame(frame_bytes(payload.size()));
  write_frame(frame, payload);
  return frame;
}

Result<std::span<const std::byte>> read_frame(const Call& call, Rank from, std::span<const std::byte> frame) {
  const std::size_t expected = frame.size() - header_bytes;
  std::uint64_t length = 0;
  std::memcpy(&length, frame.data(), header_bytes);
  if (length != expected) {
    return failure(Errc::invalid_argument,
                   fmt::format("{}: rank {} passes {} bytes, rank {} expects {}", call.name, from.value(),
                               length, call.channel.rank().value(), expected));
  }
  return frame.subspan(header_bytes);
}

Status wait_for(const Call& call, Ticket ticket, Rank peer) {
  while (true) {
    const Clock::duration left = call.deadline - call.clock.now();
    const Result<Progress> progress =
        call.channel.poll(ticket, std::clamp<Clock::duration>(left, Clock::duration::zero(), longest_poll));
    if (!progress) return tl::unexpected(progress.error());
    if (*progress == Progress::done) return {};
    if (*progress == Progress::cancelled) {
      return failure(Errc::cancelled,
                     fmt::format("{}: given up while waiting for rank {}", call.name, peer.value()));
    }
    if (call.while_waiting != nullptr) {
      if (Status used = (*call.while_waiting)(); !used) return used;
    }
    if (left.count() <= 0) {
      return failure(Errc::timeout,
                     fmt::format("{}: rank {} waited {} ms for rank {} under tag {}", call.name,
                                 call.channel.rank().value(),
                                 std::chrono::duration_cast<std::chrono::milliseconds>(call.patience).count(),
                                 peer.value(), call.tag.value()));
    }
  }
}

/// Gives tickets up. @return false when the back-end may still touch their memory.
bool give_up(const Call& call, std::span<const Ticket> tickets) {
  bool all_terminal = true;
  for (Ticket ticket : tickets) {
    call.channel.cancel(ticket);
    const Result<Progress> progress = call.channel.poll(ticket, longest_poll);
    all_terminal = all_terminal && !(progress && *progress == Progress::pending) &&
                   !(!progress && progress.error().code == Errc::peer_lost);
  }
  return all_terminal;
}

/// A late message may still land in it: it is kept for the life of the process.
void keep_for_good(Memory memory) {
  static std::mutex mutex;
  static auto& kept = *new std::vector<Memory>;  // Never destroyed: back-ends may live longer than statics.
  const std::scoped_lock lock(mutex);
  kept.push_back(std::move(memory));
}

/// Runs legs that lie in `memory`, each to its end, in order. @return the memory.
Result<Memory> transfer(const Call& call, Memory memory, std::span<const Leg> legs) {
  std::vector<Ticket> tickets;
  Status status;
  for (const Leg& leg : legs) {
    Result<Ticket> posted = call.channel.post({&leg, 1});
    if (!posted) {
      status = failure(std::move(posted));
      break;
    }
    tickets.push_back(*posted);
  }
  for (std::size_t i = 0; i < tickets.size() && status; ++i) {
    status = wait_for(call, tickets[i], legs[i].peer);
  }
  if (status) return memory;
  if (!give_up(call, tickets)) keep_for_good(std::move(memory));
  return failure(std::move(status));
}

Result<Memory> send_to(const Call& call, Rank peer, Memory frame) {
  const Leg leg = send_leg(peer, call.tag, frame);
  return transfer(call, std::move(frame), {&leg, 1});
}

Result<Memory> receive_from(const Call& call, Rank peer, Memory frame) {
  const Leg leg = receive_leg(peer, call.tag, frame);
  return transfer(call, std::move(frame), {&leg, 1});
}

Status send_to_all(const Call& call, Memory frame) {
  std::vector<Leg> legs;
  for (Rank peer : call.members) {
    if (peer != call.root()) legs.push_back(send_leg(peer, call.tag, frame));
  }
  if (Result<Memory> sent = transfer(call, std::move(frame), legs); !sent) return failure(std::move(sent));
  return {};
}

/// What every rank but the root does: hand in `mine`, and get the result.
Status hand_in(const Call& call, std::span<const std::byte> mine, std::span<std::byte> result) {
  if (Result<Memory> sent = send_to(call, call.root(), make_frame(mine)); !sent)
    return failure(std::move(sent));
  Result<Memory> frame = receive_from(call, call.root(), Memory(frame_bytes(result.size())));
  if (!frame) return failure(std::move(frame));
  Result<std::span<const std::byte>> payload = read_frame(call, call.root(), *frame);
  if (!payload) return failure(std::move(payload));
  std::ranges::copy(*payload, result.begin());
  return {};
}

void add(std::span<std::int64_t> sums, std::span<const std::byte> addends) {
  for (std::size_t i = 0; i < sums.size(); ++i) {
    std::uint64_t addend = 0;
    std::memcpy(&addend, addends.data() + i * sizeof addend, sizeof addend);
    sums[i] = static_cast<std::int64_t>(static_cast<std::uint64_t>(sums[i]) + addend);
  }
}

// One rank after the other, so that the root needs memory for one.
Status sum_at_root(const Call& call, std::span<std::int64_t> values) {
  std::vector<std::int64_t> sums(values.begin(), values.end());
  const std::span<const std::byte> sum_bytes = std::as_bytes(std::span(sums));
  Memory scratch(frame_bytes(sum_bytes.size()));
  for (Rank peer : call.members) {
    if (peer == call.root()) continue;
    Result<Memory> frame = receive_from(call, peer, std::move(scratch));
    if (!frame) return failure(std::move(frame));
    Result<std::span<const std::byte>> addends = read_frame(call, peer, *frame);
    if (!addends) return failure(std::move(addends));
    add(sums, *addends);
    scratch = std::move(*frame);
  }
  if (Status sent = send_to_all(call, make_frame(sum_bytes)); !sent) return sent;
  std::ranges::copy(sums, values.begin());
  return {};
}

Status gather_at_root(const Call& call, std::span<const std::byte> mine, std::span<std::byte> all) {
  const std::size_t size = frame_bytes(mine.size());
  Memory frames(call.members.size() * size);
  const auto frame_of = [&](Memory& memory, Rank rank) {
    const auto at = std::ranges::lower_bound(call.members, rank) - call.members.begin();
    return std::span(memory).subspan(static_cast<std::size_t>(at) * size, size);
  };
  write_frame(frame_of(frames, call.root()), mine);
  std::vector<Leg> legs;
  for (Rank peer : call.members) {
    if (peer != call.root()) legs.push_back(receive_leg(peer, call.tag, frame_of(frames, peer)));
  }
  Result<Memory> received = transfer(call, std::move(frames), legs);
  if (!received) return failure(std::move(received));

  Memory gathered;
  for (Rank rank : call.members) {
    Result<std::span<const std::byte>> payload = read_frame(call, rank, frame_of(*received, rank));
    if (!payload) return failure(std::move(payload));
    gathered.insert(gathered.end(), payload->begin(), payload->end());
  }
  if (Status sent = send_to_all(call, make_frame(gathered)); !sent) return sent;
  std::ranges::copy(gathered, all.begin());
  return {};
}

Status gather(const Call& call, std::span<const std::byte> mine, std::span<std::byte> all) {
  return call.is_root() ? gather_at_root(call, mine, all) : hand_in(call, mine, all);
}

}  // namespace

std::size_t num_members(const Transport& channel, const CollectiveOptions& options) noexcept {
  return options.members.empty() ? static_cast<std::size_t>(channel.num_ranks()) : options.members.size();
}

Status all_reduce_sum(Transport& channel, const Clock& clock, const CollectiveOptions& options,
                      std::span<std::int64_t> values) {
  const Call call(channel, clock, options, "all_reduce_sum");
  const std::span<std::byte> bytes = std::as_writable_bytes(values);
  return call.is_root() ? sum_at_root(call, values) : hand_in(call, bytes, bytes);
}

Status all_gather(Transport& channel, const Clock& clock, const CollectiveOptions& options,
                  std::span<const std::byte> mine, std::span<std::byte> all) {
  const Call call(channel, clock, options, "all_gather");
  if (all.size() != call.members.size() * mine.size()) {
    return failure(Errc::invalid_argument,
                   fmt::format("all_gather: room for {} bytes, not {} ranks x {} bytes", all.size(),
                               call.members.size(), mine.size()));
  }
  return gather(call, mine, all);
}

Status barrier(Transport& channel, const Clock& clock, const CollectiveOptions& options) {
  return gather(Call(channel, clock, options, "barrier"), {}, {});
}

}  // namespace trimtab
