// SPDX-License-Identifier: Apache-2.0
#include "migrate/stage_run.hpp"

#include "migrate/staging.hpp"

#include <trimtab/core/assert.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace trimtab {

using std::chrono::nanoseconds;

namespace {

Status mismatch(const Move& move, std::uint64_t expected, std::uint64_t found, std::string_view where) {
  return failure(
      Errc::corrupt,
      fmt::format("layer {}: expert {} from slot {} for slot {}: checksum {:#x} {} != {:#x} at its source",
                  move.layer.value(), move.expert.value(), move.source.value(), move.destination.value(),
                  found, where, expected));
}

}  // namespace

/// Relays come last on both sides, so that the i-th send to a peer still meets its i-th receive although a
/// relay waits for what it passes on.
StageRun::StageRun(const Context& context, const Step& step, std::span<std::byte> staging)
    : context_(context) {
  const Rank me = context.channel.rank();
  for (const bool relays : {false, true}) {
    for (const Move& move : step.moves) {
      if ((move.kind == MoveKind::relay) != relays) continue;
      if (context.topology.rank_of(move.destination) == me) add_incoming(move, staging);
      if (is_remote(move.kind) && context.topology.rank_of(move.source) == me) add_outgoing(move);
    }
  }
  link_displaced();
  num_open_ = outgoing_.size() + incoming_.size();
}

void StageRun::add_outgoing(const Move& move) {
  needs_workspaces_ = needs_workspaces_ || context_.store.needs_workspace(move.layer);
  const Incoming* relayed = move.kind == MoveKind::relay ? &arrival_at(move.layer, move.source) : nullptr;
  outgoing_.push_back(std::make_unique<Outgoing>(Outgoing{.move = move, .relayed = relayed}));
}

void StageRun::add_incoming(const Move& move, std::span<std::byte>& staging) {
  needs_workspaces_ = needs_workspaces_ || context_.store.needs_workspace(move.layer);
  const std::size_t bytes = context_.store.bundle_bytes(move.layer);
  const std::size_t need = move.kind == MoveKind::displaced ? 0 : staged_bytes(bytes);
  TRIMTAB_ASSERT(need <= staging.size());
  incoming_.push_back(
      std::make_unique<Incoming>(Incoming{.move = move, .staged = staging.first(need == 0 ? 0 : bytes)}));
  staging = staging.subspan(need);
  bytes_exchanged_ += bytes;
  if (is_remote(move.kind) || move.kind == MoveKind::reuse) ++slots_moved_;
}

/// A displaced bundle is exchanged after the one that takes its place, out of the same piece of staging.
void StageRun::link_displaced() {
  std::stable_partition(incoming_.begin(), incoming_.end(),
                        [](const auto& item) { return item->move.kind != MoveKind::displaced; });
  for (const auto& item : incoming_) {
    if (item->move.kind == MoveKind::displaced)
      item->staged = arrival_at(item->move.layer, item->move.source).staged;
  }
}

const StageRun::Incoming& StageRun::arrival_at(LayerId layer, SlotId destination) const {
  const auto found = std::ranges::find_if(incoming_, [&](const auto& item) {
    return item->move.layer == layer && item->move.destination == destination;
  });
  TRIMTAB_ASSERT(found != incoming_.end());
  return **found;
}

StageRun::~StageRun() {
  close_layer();
  if (has_acquired_) context_.store.release_workspaces();
}

std::size_t StageRun::staging_need(const Step& step, const Topology& topology, Rank rank,
                                   const ExpertStore& store) {
  std::size_t need = 0;
  for (const Move& move : step.moves) {
    const bool is_staged = topology.rank_of(move.destination) == rank && move.kind != MoveKind::displaced;
    if (is_staged) need += staged_bytes(store.bundle_bytes(move.layer));
  }
  return need;
}

Result<bool> StageRun::progress(const Clock& clock, Clock::time_point until) {
  bool any = false;
  if (!has_workspaces()) has_acquired_ = context_.store.try_acquire_workspaces();
  for (bool worked = true; worked && !is_complete();) {
    Result<bool> pass = visit_items(clock, until);
    if (!pass) return pass;
    worked = *pass && clock.now() < until;
    any = any || *pass;
  }
  return any;
}

/// Whether bundles of `layer` can be read now. One layer at a time is in the workspaces, and as long as sends
/// read from them.
bool StageRun::open(LayerId layer) noexcept {
  if (!context_.store.needs_workspace(layer) || open_layer_ == layer) return true;
  if (!has_acquired_ || (open_layer_ && num_posted_sends_ > 0)) return false;
  close_layer();
  context_.store.begin_layer(layer);
  open_layer_ = layer;
  return true;
}

void StageRun::close_layer() noexcept {
  if (open_layer_) context_.store.end_layer(*std::exchange(open_layer_, std::nullopt));
}

/// One pass over what is open; stops after a piece of work when the time is up.
Result<bool> StageRun::visit_items(const Clock& clock, Clock::time_point until) {
  bool worked = false;
  const auto visit = [&](auto& items) -> Status {
    for (auto& item : items) {
      if (worked && clock.now() >= until) return {};
      if (item->state == ItemState::done) continue;
      Result<bool> moved = advance(*item);
      if (!moved) return failure(std::move(moved));
      worked = worked || *moved;
    }
    return {};
  };
  if (Status sent = visit(outgoing_); !sent) return failure(std::move(sent));
  if (Status received = visit(incoming_); !received) return failure(std::move(received));
  return worked;
}

Result<bool> StageRun::advance(Outgoing& item) {
  if (item.state == ItemState::waiting) return can_post(item) ? post(item) : false;
  Result<Progress> progress = context_.channel.poll(item.ticket, nanoseconds(0));
  if (!progress) return failure(std::move(progress));
  if (*progress == Progress::pending) return false;
  if (*progress == Progress::cancelled) return failure(Errc::closed, "the migration channel was closed");
  close_item(item.state);
  --num_posted_sends_;
  return true;
}

Result<bool> StageRun::advance(Incoming& item) {
  if (item.state == ItemState::posted) return finish_receive(item);
  switch (item.move.kind) {
    case MoveKind::transfer:
    case MoveKind::relay:
      return post_receive(item);
    case MoveKind::local_copy:
      return copy_local(item);
    case MoveKind::reuse:
      return reuse_staged(item);
    case MoveKind::displaced:
      return expect_displaced(item);
  }
  return false;
}

/// In order, so that the i-th send to a peer meets its i-th receive. A relay waits for its bundle, which is
/// no relay itself.
bool StageRun::can_post(const Outgoing& item) const {
  if (&item != outgoing_[next_send_].get()) return false;
  return item.relayed == nullptr || item.relayed->state == ItemState::done;
}

/// The tensors of a live slot, or of its copy in a workspace, which nobody writes before the commit; or of
/// the bundle in staging.
std::vector<std::span<const std::byte>> StageRun::payload_of(const Outgoing& item) const {
  std::vector<std::span<const std::byte>> payload;
  std::span<const std::byte> rest = item.relayed != nullptr ? item.relayed->staged : std::span<std::byte>{};
  const std::span<const TensorSpec> tensors = context_.store.tensors(item.move.layer);
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    if (item.relayed == nullptr) {
      payload.push_back(context_.store.tensor_payload(item.move.layer, t, item.move.source));
    } else {
      payload.push_back(rest.first(tensors[t].slot_bytes));
      rest = rest.subspan(tensors[t].slot_bytes);
    }
  }
  return payload;
}

/// The checksum travels ahead of the tensors. A relay passes on the one that was taken at the first source.
Result<bool> StageRun::post(Outgoing& item) {
  const Move& move = item.move;
  if (item.relayed == nullptr && !open(move.layer)) return false;
  const Rank peer = context_.topology.rank_of(move.destination);
  item.checksum = item.relayed != nullptr ? item.relayed->checksum
                                          : context_.store.checksum(move.layer, move.source, move.expert);
  std::vector<Leg> legs{send_leg(peer, context_.tag, std::as_bytes(std::span(&item.checksum, 1)))};
  for (const std::span<const std::byte> tensor : payload_of(item))
    legs.push_back(send_leg(peer, context_.tag, tensor));
  Result<Ticket> ticket = context_.channel.post(legs);
  if (!ticket) return failure(std::move(ticket));
  ++next_send_;
  ++num_posted_sends_;
  item.ticket = *ticket;
  item.state = ItemState::posted;
  return true;
}

Result<bool> StageRun::post_receive(Incoming& item) {
  const Rank peer = context_.topology.rank_of(item.move.source);
  std::vector<Leg> legs{
      receive_leg(peer, context_.tag, std::as_writable_bytes(std::span(&item.checksum, 1)))};
  std::span<std::byte> rest = item.staged;
  for (const TensorSpec& tensor : context_.store.tensors(item.move.layer)) {
    legs.push_back(receive_leg(peer, context_.tag, rest.first(tensor.slot_bytes)));
    rest = rest.subspan(tensor.slot_bytes);
  }
  Result<Ticket> ticket = context_.channel.post(legs);
  if (!ticket) return failure(std::move(ticket));
  item.ticket = *ticket;
  item.state = ItemState::posted;
  return true;
}

Result<bool> StageRun::finish_receive(Incoming& item) {
  Result<Progress> progress = context_.channel.poll(item.ticket, nanoseconds(0));
  if (!progress) return failure(std::move(progress));
  if (*progress == Progress::pending) return false;
  if (*progress == Progress::cancelled) return failure(Errc::closed, "the migration channel was closed");
  close_item(item.state);
  bytes_received_ += item.staged.size();
  if (Status verified = verify(item); !verified) return failure(std::move(verified));
  return true;
}

Result<bool> StageRun::copy_local(Incoming& item) {
  if (!open(item.move.layer)) return false;
  item.checksum = context_.store.checksum(item.move.layer, item.move.source, item.move.expert);
  context_.store.read_bundle(item.move.layer, item.move.source, item.staged);
  close_item(item.state);
  bytes_copied_ += item.staged.size();
  if (Status verified = verify(item); !verified) return failure(std::move(verified));
  return true;
}

Result<bool> StageRun::reuse_staged(Incoming& item) {
  const Incoming& origin = arrival_at(item.move.layer, item.move.source);
  if (origin.state != ItemState::done) return false;
  std::memcpy(item.staged.data(), origin.staged.data(), item.staged.size());
  item.checksum = origin.checksum;
  close_item(item.state);
  bytes_copied_ += item.staged.size();
  if (Status verified = verify(item); !verified) return failure(std::move(verified));
  return true;
}

/// Its bytes stay in the slot until the exchange; what they must be is known now.
Result<bool> StageRun::expect_displaced(Incoming& item) {
  if (!open(item.move.layer)) return false;
  item.checksum = context_.store.checksum(item.move.layer, item.move.source, item.move.expert);
  bytes_copied_ += item.staged.size();
  close_item(item.state);
  return true;
}

Status StageRun::verify(Incoming& item) {
  const std::uint64_t found = ExpertStore::checksum(item.move.layer, item.staged, item.move.expert);
  if (found != item.checksum) return mismatch(item.move, item.checksum, found, "in staging");
  on_verified(item.move, item.staged);
  return {};
}

void StageRun::close_item(ItemState& state) noexcept {
  state = ItemState::done;
  --num_open_;
}

void StageRun::cancel() noexcept {
  for (const auto& item : outgoing_) {
    if (item->state == ItemState::posted) context_.channel.cancel(item->ticket);
  }
  for (const auto& item : incoming_) {
    if (item->state == ItemState::posted) context_.channel.cancel(item->ticket);
  }
}

bool StageRun::is_quiet() {
  bool quiet = true;
  const auto settle = [&](auto& item) {
    if (item->state != ItemState::posted) return;
    Result<Progress> progress = context_.channel.poll(item->ticket, nanoseconds(0));
    // A failed poll has ended its ticket; but a leg with a lost peer stays posted until it is cancelled.
    const bool is_terminal =
        progress ? *progress != Progress::pending : progress.error().code != Errc::peer_lost;
    if (is_terminal) item->state = ItemState::done;
    quiet = quiet && is_terminal;
  };
  std::ranges::for_each(outgoing_, settle);
  std::ranges::for_each(incoming_, settle);
  return quiet;
}

/// Moves lie layer by layer, so each layer is opened once, and the first may still be open from reading.
void StageRun::exchange() noexcept {
  for (const auto& item : incoming_) {
    const bool is_open = open(item->move.layer);
    TRIMTAB_ASSERT(is_open);
    context_.store.exchange_bundle(item->move.layer, item->move.destination, item->staged);
  }
  close_layer();
}

Status StageRun::verify_exchanged(std::size_t count, std::uint64_t salt) {
  for (std::size_t i = 0; i < std::min(count, incoming_.size()); ++i) {
    const Incoming& item = *incoming_[(salt + i) % incoming_.size()];
    const bool is_open = open(item.move.layer);
    TRIMTAB_ASSERT(is_open);
    const std::uint64_t found =
        context_.store.checksum(item.move.layer, item.move.destination, item.move.expert);
    if (found != item.checksum)
      return mismatch(item.move, item.checksum, found, "in its slot after the commit");
  }
  return {};
}

}  // namespace trimtab
