// SPDX-License-Identifier: Apache-2.0
#include "migrate/stage_receive.hpp"

#include "core/bulk_copy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace trimtab {
namespace {

/// Measured, as for copies between ranks of one process.
constexpr std::size_t fused_bytes = 2048;

void copy_between_checksums(std::span<std::byte> to, std::span<const std::byte> from, Checksum& source,
                            BundleChecksum& found) {
  for (std::size_t at = 0; at < to.size(); at += fused_bytes) {
    const std::size_t size = std::min(fused_bytes, to.size() - at);
    source.update(from.subspan(at, size));
    std::memcpy(to.data() + at, from.data() + at, size);
    found.pass(size);
  }
}

}  // namespace

Status checksum_mismatch(const Move& move, std::uint64_t expected, std::uint64_t found,
                         std::string_view where) {
  return failure(
      Errc::corrupt,
      fmt::format("layer {}: expert {} from slot {} for slot {}: checksum {:#x} {} != {:#x} at its source",
                  move.layer.value(), move.expert.value(), move.source.value(), move.destination.value(),
                  found, where, expected));
}

Result<bool> IncomingBundle::advance(bool may_post) {
  if (origin_ != nullptr) return reuse_staged();
  switch (move_.kind) {
    case MoveKind::transfer:
    case MoveKind::relay:
      return receive(may_post);
    case MoveKind::local_copy:
      return copy_from_slot();
    case MoveKind::displaced:
      return expect_displaced();
    case MoveKind::recover:
      return recover();
    case MoveKind::reuse:  // Has an origin.
      break;
  }
  return false;
}

/// What has come is verified before more is asked for: it is in the cache now.
Result<bool> IncomingBundle::receive(bool may_post) {
  Result<bool> has_come = pieces_.take_done(context_.channel);
  if (!has_come) return has_come;
  if (*has_come) {
    if (Status verified = verify_next(); !verified) return failure(std::move(verified));
    return true;
  }
  if (!may_post || is_posted() || pieces_.is_full()) return false;
  if (Status posted = post_next(); !posted) return failure(std::move(posted));
  return true;
}

/// The checksum comes behind the last piece: its source has read the whole bundle only then.
Status IncomingBundle::post_next() {
  if (!found_) begin();
  const Rank peer = context_.topology.rank_of(move_.source);
  std::vector<Leg> legs;
  for (const TensorPart& part : piece_at(context_.store.tensors(move_.layer), num_posted_)) {
    legs.push_back(receive_leg(peer, context_.tag, staged_.subspan(num_posted_, part.size), &*found_));
    num_posted_ += part.size;
  }
  if (is_posted())
    legs.push_back(receive_leg(peer, context_.tag, std::as_writable_bytes(std::span(&checksum_, 1))));
  Result<Ticket> ticket = context_.channel.post(legs);
  if (!ticket) return failure(std::move(ticket));
  pieces_.push(*ticket);
  return {};
}

Result<bool> IncomingBundle::copy_from_slot() {
  if (!source_) source_ = ExpertStore::start_checksum(move_.layer, move_.expert);
  if (!found_) begin();
  const std::span<std::byte> piece = next_piece();
  std::span<std::byte> to = piece;
  for (const TensorPart& part : piece_at(context_.store.tensors(move_.layer), num_verified_)) {
    const auto from = context_.store.tensor_payload(move_.layer, part.tensor, move_.source);
    copy_between_checksums(to.first(part.size), from.subspan(part.offset, part.size), *source_, *found_);
    to = to.subspan(part.size);
  }
  num_verified_ += piece.size();
  num_posted_ = num_verified_;
  if (!is_done()) return true;
  checksum_ = source_->digest();
  if (Status verified = finish(); !verified) return failure(std::move(verified));
  return true;
}

Result<bool> IncomingBundle::reuse_staged() {
  if (!origin_->is_done()) return false;
  if (!found_) begin();
  const std::span<std::byte> piece = next_piece();
  bulk_copy(piece, origin_->staged().subspan(num_verified_, piece.size()));
  checksum_ = origin_->checksum();
  num_posted_ += piece.size();
  if (Status verified = verify_next(); !verified) return failure(std::move(verified));
  return true;
}

/// Its bytes stay in the slot until the exchange; what they must be is known now.
Result<bool> IncomingBundle::expect_displaced() {
  if (!found_) begin();
  num_verified_ += next_piece().size();
  num_posted_ = num_verified_;
  found_->pass_to(num_verified_);
  if (is_done()) checksum_ = found_->digest();
  return true;
}

/// The source verifies what it reads.
Result<bool> IncomingBundle::recover() {
  if (context_.source == nullptr) {
    return failure(Errc::unavailable,
                   fmt::format("layer {}: expert {} has no slot, and this rank has no source",
                               move_.layer.value(), move_.expert.value()));
  }
  if (Status read = context_.source->read(move_.layer, move_.expert, staged_); !read)
    return failure(std::move(read));
  checksum_ = ExpertStore::checksum(move_.layer, staged_, move_.expert);
  num_posted_ = staged_.size();
  num_verified_ = staged_.size();
  return true;
}

void IncomingBundle::begin() {
  std::vector<std::span<const std::byte>> parts;
  if (move_.kind == MoveKind::displaced) {
    for (std::size_t t = 0; t < context_.store.tensors(move_.layer).size(); ++t)
      parts.push_back(context_.store.tensor_payload(move_.layer, t, move_.source));
  } else {
    parts.emplace_back(staged_);
  }
  found_.emplace(ExpertStore::start_checksum(move_.layer, move_.expert), std::move(parts));
}

std::span<std::byte> IncomingBundle::next_piece() const noexcept {
  return staged_.subspan(num_verified_, std::min(piece_bytes, staged_.size() - num_verified_));
}

/// What the transport did not tell of is read again.
Status IncomingBundle::verify_next() {
  num_verified_ += next_piece().size();
  found_->pass_to(num_verified_);
  return is_done() ? finish() : Status{};
}

Status IncomingBundle::finish() {
  const std::uint64_t found = found_->digest();
  found_.reset();
  source_.reset();
  return found == checksum_ ? Status{} : checksum_mismatch(move_, checksum_, found, "in staging");
}

}  // namespace trimtab
