// SPDX-License-Identifier: Apache-2.0
#include "migrate/stage_send.hpp"

namespace trimtab {

OutgoingBundle::OutgoingBundle(const StageContext& context, const Move& move, const IncomingBundle* relayed)
    : context_(context), move_(move), relayed_(relayed), size_(context.store.bundle_bytes(move.layer)) {}

Result<bool> OutgoingBundle::advance(bool may_post) {
  Result<bool> is_through = pieces_.take_done(context_.channel);
  if (!is_through || *is_through) return is_through;
  if (!may_post || is_posted() || pieces_.is_full()) return false;
  if (Status posted = post_next(); !posted) return failure(std::move(posted));
  return true;
}

/// A live slot is checksummed as it leaves; a relay passes on what was taken at the first source.
Status OutgoingBundle::post_next() {
  const Rank peer = context_.topology.rank_of(move_.destination);
  std::vector<Leg> legs;
  for (const TensorPart& part : piece_at(context_.store.tensors(move_.layer), num_posted_)) {
    legs.push_back(send_leg(peer, context_.tag, read(part)));
    num_posted_ += part.size;
  }
  if (is_posted()) {
    checksum_ = relayed_ != nullptr ? relayed_->checksum() : source_->digest();
    source_.reset();
    legs.push_back(send_leg(peer, context_.tag, std::as_bytes(std::span(&checksum_, 1))));
  }
  Result<Ticket> ticket = context_.channel.post(legs);
  if (!ticket) return failure(std::move(ticket));
  pieces_.push(*ticket);
  return {};
}

std::span<const std::byte> OutgoingBundle::read(const TensorPart& part) {
  if (relayed_ != nullptr) return relayed_->staged().subspan(num_posted_, part.size);
  if (!source_) source_ = ExpertStore::start_checksum(move_.layer, move_.expert);
  const auto payload = context_.store.tensor_payload(move_.layer, part.tensor, move_.source);
  source_->update(payload.subspan(part.offset, part.size));
  return payload.subspan(part.offset, part.size);
}

}  // namespace trimtab
