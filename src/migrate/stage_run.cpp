// SPDX-License-Identifier: Apache-2.0
#include "migrate/stage_run.hpp"

#include "migrate/send_order.hpp"
#include "migrate/staging.hpp"

#include <trimtab/core/assert.hpp>

#include <algorithm>
#include <utility>

namespace trimtab {
namespace {

/// How many rounds a rank may send ahead of what it has not finished: one keeps its link busy while the last
/// piece of a round is on its way.
constexpr std::int32_t rounds_ahead = 1;

template <class Bundle>
bool comes_before(const Bundle* a, const Bundle* b) {
  return is_sent_before(a->move(), b->move());
}

}  // namespace

StageRun::StageRun(const Context& context, const Step& step, std::span<std::byte> staging)
    : context_(context) {
  const Rank me = context.channel.rank();
  const auto comes_here = [&](const Move& move) { return context.topology.rank_of(move.destination) == me; };
  for (const Move& move : step.moves) {
    if (comes_here(move) && move.kind != MoveKind::displaced) add_incoming(move, staging);
  }
  for (const Move& move : step.moves) {
    if (comes_here(move) && move.kind == MoveKind::displaced) add_displaced(move);
    if (is_remote(move.kind) && context.topology.rank_of(move.source) == me) add_outgoing(move);
  }
  list_open();
}

void StageRun::add_incoming(const Move& move, std::span<std::byte>& staging) {
  if (context_.store.needs_workspace(move.layer)) {
    needs_workspaces_ = true;
    is_prepared_ = false;
  }
  const std::size_t bytes = context_.store.bundle_bytes(move.layer);
  TRIMTAB_ASSERT(staged_bytes(bytes) <= staging.size());
  incoming_.push_back(std::make_unique<IncomingBundle>(context_, move, staging.first(bytes)));
  staging = staging.subspan(staged_bytes(bytes));
  bytes_exchanged_ += bytes;
  const bool is_from_here = move.kind == MoveKind::local_copy || move.kind == MoveKind::displaced;
  if (!is_from_here) ++slots_moved_;
}

/// Exchanged after the bundle that takes its place, out of the same piece of staging.
void StageRun::add_displaced(const Move& move) {
  const std::span<std::byte> staged = arrival_at(move.layer, move.source).staged();
  incoming_.push_back(std::make_unique<IncomingBundle>(context_, move, staged));
  bytes_exchanged_ += staged.size();
}

void StageRun::add_outgoing(const Move& move) {
  needs_workspaces_ = needs_workspaces_ || context_.store.needs_workspace(move.layer);
  const IncomingBundle* relayed =
      move.kind == MoveKind::relay ? &arrival_at(move.layer, move.source) : kept_for(move);
  outgoing_.push_back(std::make_unique<OutgoingBundle>(context_, move, relayed));
}

void StageRun::list_open() {
  for (const auto& bundle : outgoing_) open_sends_.push_back(bundle.get());
  for (const auto& bundle : incoming_) {
    const Move& move = bundle->move();
    const bool is_local = move.kind == MoveKind::local_copy;
    const IncomingBundle* origin = is_local ? kept_for(move) : nullptr;
    if (move.kind == MoveKind::reuse) origin = &arrival_at(move.layer, move.source);
    if (origin != nullptr) bundle->reuse(*origin);
    (is_remote(move.kind) ? open_receives_ : open_copies_).push_back(bundle.get());
  }
  std::ranges::stable_sort(open_sends_, comes_before<OutgoingBundle>);
  std::ranges::stable_sort(open_receives_, comes_before<IncomingBundle>);
  std::ranges::stable_sort(open_copies_, {}, [](const auto* bundle) { return bundle->move().layer; });
  std::ranges::stable_sort(incoming_, {}, [](const auto& bundle) {
    return std::pair(bundle->move().layer, bundle->move().kind == MoveKind::displaced);
  });
}

const IncomingBundle* StageRun::kept_for(const Move& move) {
  const KeptBundles::Bundle* bundle =
      context_.kept == nullptr ? nullptr : context_.kept->find(move.layer, move.expert, move.source);
  if (bundle == nullptr) return nullptr;
  kept_bytes_.push_back(bundle->bytes);
  kept_.push_back(std::make_unique<IncomingBundle>(context_, move, *bundle->bytes, bundle->checksum));
  return kept_.back().get();
}

const IncomingBundle& StageRun::arrival_at(LayerId layer, SlotId destination) const {
  const auto found = std::ranges::find_if(incoming_, [&](const auto& bundle) {
    return bundle->move().layer == layer && bundle->move().destination == destination;
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
  while (!is_complete()) {
    Result<bool> worked = work_once();
    if (!worked) return worked;
    if (!*worked) break;
    any = true;
    if (clock.now() >= until) break;
  }
  return any;
}

/// One piece of whatever can go on.
Result<bool> StageRun::work_once() {
  constexpr std::size_t num_kinds = 3;
  for (std::size_t tried = 0; tried < num_kinds; ++tried) {
    turn_ = (turn_ + 1) % num_kinds;
    Result<bool> worked = turn_ == 0 ? send_once() : turn_ == 1 ? receive_once() : copy_once();
    if (!worked || *worked) return worked;
  }
  return prepare_once();
}

Result<bool> StageRun::send_once() {
  for (OutgoingBundle* bundle : open_sends_) {
    const bool may_go = is_in_turn(*bundle);
    if (may_go && convert_once(*bundle)) return true;
    Result<bool> worked = bundle->advance(may_go && may_read(*bundle));
    if (!worked) return worked;
    if (bundle->is_done()) std::erase(open_sends_, bundle);
    if (*worked) return true;
    if (!bundle->is_posted()) return false;
  }
  return false;
}

Result<bool> StageRun::receive_once() {
  for (IncomingBundle* bundle : open_receives_) {
    Result<bool> worked = bundle->advance(true);
    if (!worked) return worked;
    if (bundle->is_done()) {
      on_staged(*bundle);
      std::erase(open_receives_, bundle);
    }
    if (*worked) return true;
    if (!bundle->is_posted()) return false;
  }
  return false;
}

Result<bool> StageRun::copy_once() {
  const bool may_open = may_open_for_copies();
  for (IncomingBundle* bundle : open_copies_) {
    if ((may_open || is_open(bundle->move().layer)) && convert_once(*bundle)) return true;
    if (!may_read(*bundle)) continue;
    Result<bool> worked = bundle->advance(true);
    if (!worked) return worked;
    if (bundle->is_done()) {
      on_staged(*bundle);
      std::erase(open_copies_, bundle);
    }
    if (*worked) return true;
  }
  return false;
}

bool StageRun::is_in_turn(const OutgoingBundle& bundle) const noexcept {
  if (bundle.is_begun()) return true;
  std::int32_t oldest = open_sends_.front()->move().round;
  if (!open_receives_.empty()) oldest = std::min(oldest, open_receives_.front()->move().round);
  return bundle.move().round <= oldest + rounds_ahead && bundle.has_source();
}

/// Opens the layer of the slot that `bundle` is to be read from, if that can be, and converts a piece of it.
/// @return whether there was anything to convert.
template <class Bundle>
bool StageRun::convert_once(const Bundle& bundle) noexcept {
  if (!bundle.reads_slot() || bundle.is_begun()) return false;
  const Move& move = bundle.move();
  if (!open(move.layer) || context_.store.is_converted(move.layer, move.source)) return false;
  context_.store.convert_slot(move.layer, move.source, piece_bytes);
  return true;
}

/// When there is nothing to convert.
template <class Bundle>
bool StageRun::may_read(const Bundle& bundle) const noexcept {
  return !bundle.reads_slot() || bundle.is_begun() || is_open(bundle.move().layer);
}

/// What `exchange` begins with is converted before the vote and not while nobody computes: as much of it as
/// the workspaces hold, which is one layer.
bool StageRun::prepare_once() noexcept {
  if (is_prepared_ || !open_sends_.empty() || !open_receives_.empty() || !open_copies_.empty()) return false;
  const auto is_of_open = [&](const auto& bundle) { return bundle->move().layer == open_layer_; };
  std::rotate(incoming_.begin(), std::ranges::find_if(incoming_, is_of_open), incoming_.end());
  const auto first = std::ranges::find_if(
      incoming_, [&](const auto& bundle) { return context_.store.needs_workspace(bundle->move().layer); });
  if (!open((*first)->move().layer)) return false;
  const auto lacks = [&](const auto& bundle) {
    return is_of_open(bundle) &&
           !context_.store.is_converted(bundle->move().layer, bundle->move().destination);
  };
  const auto next = std::ranges::find_if(incoming_, lacks);
  if (next != incoming_.end())
    context_.store.convert_slot(*open_layer_, (*next)->move().destination, piece_bytes);
  is_prepared_ = std::ranges::none_of(incoming_, lacks);
  return true;
}

void StageRun::on_staged(const IncomingBundle& bundle) {
  const MoveKind kind = bundle.move().kind;
  auto& bytes = is_remote(kind)             ? bytes_received_
                : kind == MoveKind::recover ? bytes_recovered_
                                            : bytes_copied_;
  bytes += bundle.staged().size();
  if (bundle.move().kind != MoveKind::displaced) on_verified(bundle.move(), bundle.staged());
}

/// Whether a bundle that was begun is read from the open layer still.
bool StageRun::is_reading() const noexcept {
  const auto reads = [&](const auto* bundle) {
    return bundle->reads_slot() && bundle->is_begun() && bundle->move().layer == open_layer_;
  };
  return std::ranges::any_of(open_sends_, reads) || std::ranges::any_of(open_copies_, reads);
}

/// Sends have an order, which tells the layers that are opened; copies go along. When no send is left to be
/// read from workspaces, copies open one layer after another.
bool StageRun::may_open_for_copies() const noexcept {
  if (!needs_workspaces_) return true;
  const auto reads_workspace = [&](const OutgoingBundle* bundle) {
    return bundle->reads_slot() && context_.store.needs_workspace(bundle->move().layer);
  };
  const auto reads_open_layer = [&](const IncomingBundle* bundle) {
    return bundle->reads_slot() && bundle->move().layer == open_layer_;
  };
  return std::ranges::none_of(open_sends_, reads_workspace) &&
         std::ranges::none_of(open_copies_, reads_open_layer);
}

/// Whether `layer` can be used now, as far as it is converted. One layer at a time is in the workspaces, and
/// as long as it is read there.
bool StageRun::open(LayerId layer) noexcept {
  if (is_open(layer)) return true;
  if (!has_acquired_ || is_reading()) return false;
  close_layer();
  context_.store.open_layer(layer);
  open_layer_ = layer;
  return true;
}

/// After the vote, when the workspaces are free. In one go.
void StageRun::open_converted(LayerId layer, SlotId slot) noexcept {
  const bool is_open = open(layer);
  TRIMTAB_ASSERT(is_open);
  while (!context_.store.convert_slot(layer, slot, context_.store.bundle_bytes(layer))) {
  }
}

void StageRun::close_layer() noexcept {
  if (open_layer_) context_.store.end_layer(*std::exchange(open_layer_, std::nullopt));
}

void StageRun::cancel() noexcept {
  for (const auto& bundle : outgoing_) bundle->cancel();
  for (const auto& bundle : incoming_) bundle->cancel();
}

bool StageRun::is_quiet() {
  bool quiet = true;
  for (const auto& bundle : outgoing_) quiet = bundle->settle() && quiet;
  for (const auto& bundle : incoming_) quiet = bundle->settle() && quiet;
  return quiet;
}

/// Layer by layer, so each is opened once, and the first is open already.
void StageRun::exchange() noexcept {
  for (const auto& bundle : incoming_) {
    open_converted(bundle->move().layer, bundle->move().destination);
    context_.store.exchange_bundle(bundle->move().layer, bundle->move().destination, bundle->staged());
  }
  close_layer();
}

Result<std::vector<std::byte>> StageRun::displaced(LayerId layer, SlotId slot) {
  const auto staged = std::ranges::find_if(incoming_, [&](const auto& bundle) {
    return bundle->move().layer == layer && bundle->move().destination == slot;
  });
  if (staged != incoming_.end()) {
    const std::span<const std::byte> bytes = (*staged)->staged();
    return std::vector(bytes.begin(), bytes.end());
  }
  if (context_.store.needs_workspace(layer) && !has_acquired_) {
    has_acquired_ = context_.store.try_acquire_workspaces();
    if (!has_acquired_) return failure(Errc::unavailable, "the workspaces are in use");
  }
  open_converted(layer, slot);
  std::vector<std::byte> bytes(context_.store.bundle_bytes(layer));
  context_.store.read_bundle(layer, slot, bytes);
  close_layer();
  return bytes;
}

Status StageRun::verify_exchanged(std::size_t count, std::uint64_t salt) {
  for (std::size_t i = 0; i < std::min(count, incoming_.size()); ++i) {
    const IncomingBundle& bundle = *incoming_[(salt + i) % incoming_.size()];
    const Move& move = bundle.move();
    open_converted(move.layer, move.destination);
    const std::uint64_t found = context_.store.checksum(move.layer, move.destination, move.expert);
    if (found != bundle.checksum())
      return checksum_mismatch(move, bundle.checksum(), found, "in its slot after the commit");
  }
  return {};
}

}  // namespace trimtab
