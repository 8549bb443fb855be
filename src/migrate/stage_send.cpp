// SPDX-License-Identifier: Apache-2.0
#include "migrate/stage_send.hpp"

namespace trimtab {

OutgoingBundle::OutgoingBundle(const StageContext& context, const Move& move, const IncomingBundle* relayed)
    : context_(context), move_(move), relayed_(relayed), size_(context.store.bundle_bytes(move.layer)) {}

Result<bool> OutgoingBundle::advance(bool may_post) {
  Result<bool> is_through = pieces_.take_done(context_.channel);
  if (!is_through || *is_through) return is_through;
  if (!may_post || is_posted() || pieces_.is_full()) return false;
  if (num_posted_ == size_ && is_watched() && !pieces_.is_empty()) return false;
  if (Status posted = num_posted_ < size_ ? post_piece() : post_checksum(); !posted)
    return failure(std::move(posted));
  return true;
}

/// A live slot is checksummed as it leaves: by the transport's leave while it copies, or else before.
Status OutgoingBundle::post_piece() {
  if (reads_slot() && !source_) begin();
  LegWatcher* const watcher = source_ ? &*source_ : nullptr;
  const Rank peer = context_.topology.rank_of(move_.destination);
  std::vector<Leg> legs;
  for (const TensorPart& part : piece_at(context_.store.tensors(move_.layer), num_posted_)) {
    legs.push_back(send_leg(peer, context_.tag, memory_of(part), watcher));
    num_posted_ += part.size;
  }
  if (source_ && !is_watched()) source_->pass_to(num_posted_);
  return post(legs);
}

void OutgoingBundle::begin() {
  std::vector<std::span<const std::byte>> parts;
  for (std::size_t t = 0; t < context_.store.tensors(move_.layer).size(); ++t)
    parts.push_back(context_.store.tensor_payload(move_.layer, t, move_.source));
  source_.emplace(ExpertStore::start_checksum(move_.layer, move_.expert), std::move(parts));
}

/// Behind the last piece, when the whole slot has been read. A relay passes on what was taken at the first
/// source.
Status OutgoingBundle::post_checksum() {
  if (source_) source_->pass_to(size_);
  checksum_ = source_ ? source_->digest() : relayed_->checksum();
  has_posted_checksum_ = true;
  const Leg leg = send_leg(context_.topology.rank_of(move_.destination), context_.tag,
                           std::as_bytes(std::span(&checksum_, 1)));
  return post({&leg, 1});
}

bool OutgoingBundle::is_watched() const noexcept {
  return reads_slot() && context_.channel.capabilities().tells_watchers;
}

Status OutgoingBundle::post(std::span<const Leg> legs) {
  Result<Ticket> ticket = context_.channel.post(legs);
  if (!ticket) return failure(std::move(ticket));
  pieces_.push(*ticket);
  return {};
}

std::span<const std::byte> OutgoingBundle::memory_of(const TensorPart& part) const noexcept {
  if (relayed_ != nullptr) return relayed_->staged().subspan(num_posted_, part.size);
  return context_.store.tensor_payload(move_.layer, part.tensor, move_.source)
      .subspan(part.offset, part.size);
}

}  // namespace trimtab
