// SPDX-License-Identifier: Apache-2.0
#include "moe/all_to_all.hpp"

#include <fmt/format.h>

#include <chrono>
#include <string>
#include <utility>

namespace trimtab::moe {
namespace {

std::string describe(std::uint64_t epoch, std::uint32_t split_version, std::uint64_t forward,
                     std::int32_t layer) {
  return fmt::format("epoch {}, split {}, forward {}, layer {}", epoch, split_version, forward, layer);
}

}  // namespace

MessageHeader make_header(MessageKind kind, const BatchKey& key, std::size_t num_rows) noexcept {
  return {kind,
          key.table.split_version,
          key.table.epoch.value(),
          key.forward.value(),
          key.layer.value(),
          static_cast<std::uint32_t>(num_rows)};
}

Status check_header(const MessageHeader& header, MessageKind kind, const BatchKey& key, Rank sender,
                    std::size_t max_rows) {
  if (header.kind != kind) {
    return failure(Errc::corrupt,
                   fmt::format("rank {} sent a message of kind {:#x}, not {:#x}", sender.value(),
                               static_cast<std::uint32_t>(header.kind), static_cast<std::uint32_t>(kind)));
  }
  const MessageHeader own = make_header(kind, key, header.num_rows);
  if (header.epoch != own.epoch || header.split_version != own.split_version ||
      header.forward != own.forward || header.layer != own.layer) {
    return failure(Errc::version_mismatch,
                   fmt::format("rank {} is at {}; this rank at {}", sender.value(),
                               describe(header.epoch, header.split_version, header.forward, header.layer),
                               describe(own.epoch, own.split_version, own.forward, own.layer)));
  }
  if (header.num_rows <= max_rows) return {};
  return failure(Errc::corrupt, fmt::format("rank {} sent {} rows > {} (layer {})", sender.value(),
                                            header.num_rows, max_rows, key.layer.value()));
}

AllToAll::AllToAll(Transport& channel, const Topology& topology, const Clock& clock, Clock::duration deadline,
                   std::function<Status()> while_waiting, std::function<void(Rank)> on_unheard)
    : channel_(channel),
      topology_(topology),
      clock_(clock),
      deadline_(deadline),
      while_waiting_(std::move(while_waiting)),
      on_unheard_(std::move(on_unheard)) {}

Status AllToAll::run(Tag tag, std::span<const std::span<const std::byte>> out,
                     std::span<const std::span<std::byte>> in) {
  pending_.clear();
  if (Status posted = post(tag, out, in); !posted) return posted;
  return wait_for_all();
}

Status AllToAll::post(Tag tag, std::span<const std::span<const std::byte>> out,
                      std::span<const std::span<std::byte>> in) {
  // A ticket per message, so that a time-out can say who is missing. Receives first: what arrives finds them.
  for (const Rank peer : ids<Rank>(channel_.num_ranks())) {
    if (!is_peer(peer)) continue;
    if (Status s = post_leg(receive_leg(peer, tag, in[peer.index()])); !s) return s;
  }
  for (const Rank peer : ids<Rank>(channel_.num_ranks())) {
    if (!is_peer(peer)) continue;
    if (Status s = post_leg(send_leg(peer, tag, out[peer.index()])); !s) return s;
  }
  return {};
}

Status AllToAll::post_leg(const Leg& leg) {
  Result<Ticket> ticket = channel_.post({&leg, 1});
  if (!ticket) return failure(std::move(ticket));
  pending_.push_back({*ticket, leg.peer, leg.side});
  return {};
}

void AllToAll::give_up() {
  for (const Pending& pending : pending_) channel_.cancel(pending.ticket);
  give_up_until_ = clock_.now() + deadline_;
}

Result<bool> AllToAll::has_let_go() {
  std::erase_if(pending_, [&](const Pending& pending) {
    const Result<Progress> progress = channel_.poll(pending.ticket, std::chrono::nanoseconds(0));
    return progress ? *progress != Progress::pending : progress.error().code != Errc::peer_lost;
  });
  if (pending_.empty()) return true;
  if (clock_.now() < give_up_until_) return false;
  return failure(Errc::timeout,
                 fmt::format("a message of rank {} cannot be given up", pending_.front().peer.value()));
}

Status AllToAll::wait_for_all() {
  const Clock::time_point begun = clock_.now();
  has_told_ = !on_unheard_;
  for (Pending& pending : pending_) {
    if (Status s = wait_for(pending, begun); !s) return s;
  }
  pending_.clear();
  return {};
}

Status AllToAll::wait_for(Pending& pending, Clock::time_point begun) {
  const std::chrono::microseconds slice{while_waiting_ ? 100 : 5000};
  const char* const what = pending.side == Side::receive ? "a message from" : "delivery to";
  while (!pending.is_done) {
    Result<Progress> progress = channel_.poll(pending.ticket, slice);
    if (!progress) return failure(std::move(progress));
    pending.is_done = *progress == Progress::done;
    if (pending.is_done) return {};
    if (*progress == Progress::cancelled) {
      return failure(Errc::cancelled, fmt::format("{} rank {} was given up", what, pending.peer.value()));
    }
    if (while_waiting_) {
      if (Status used = while_waiting_(); !used) return used;
    }
    const Clock::duration waited = clock_.now() - begun;
    if (!has_told_ && waited >= deadline_ / 2) {
      if (Status told = tell_unheard(); !told) return told;
    }
    if (waited >= deadline_) {
      return failure(Errc::timeout,
                     fmt::format("{} rank {} took more than {} ms", what, pending.peer.value(),
                                 std::chrono::duration_cast<std::chrono::milliseconds>(deadline_).count()));
    }
  }
  return {};
}

Status AllToAll::tell_unheard() {
  has_told_ = true;
  for (Pending& pending : pending_) {
    if (pending.is_done || pending.side != Side::receive) continue;
    Result<Progress> progress = channel_.poll(pending.ticket, std::chrono::nanoseconds(0));
    if (!progress) return failure(std::move(progress));
    pending.is_done = *progress == Progress::done;
    if (*progress == Progress::pending) on_unheard_(pending.peer);
  }
  return {};
}

}  // namespace trimtab::moe
