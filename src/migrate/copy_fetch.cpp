// SPDX-License-Identifier: Apache-2.0
#include "migrate/copy_fetch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace trimtab {

std::string CopyFetch::place() const {
  return fmt::format("copies of peers: layer {}, expert {}: rank {}", wanted_.layer.value(),
                     wanted_.expert.value(), wanted_.keeper.value());
}

std::optional<PieceRequest> CopyFetch::next_request(std::size_t ahead) {
  if (asked_ == bundle_.size() || asked_ - arrived_ >= ahead * piece_bytes_) return std::nullopt;
  PieceRequest request{.layer = wanted_.layer.value(),
                       .expert = wanted_.expert.value(),
                       .fetch = number_,
                       .offset = asked_,
                       .size = std::min(piece_bytes_, bundle_.size() - asked_)};
  seal(request);
  asked_ += request.size;
  return request;
}

bool CopyFetch::take(Rank from, std::span<const std::byte> message) {
  const auto header = read_message<PieceHeader>(message);
  if (!header || is_over() || from != wanted_.keeper || header->fetch != number_) return false;
  const bool is_next = header->is_kept == 0 || header->offset == arrived_;
  if (!is_next || header->size > message.size() - sizeof *header) return false;
  take_piece(*header, message.subspan(sizeof *header, header->size));
  return true;
}

void CopyFetch::take_piece(const PieceHeader& header, std::span<const std::byte> bytes) {
  if (Status right = check(header); !right) {
    outcome_ = std::move(right);
    return;
  }
  if (!verifier_) verifier_.emplace(wanted_.layer, wanted_.expert, header.bundle_checksum);
  const auto to = bundle_.subspan(arrived_, bytes.size());
  std::ranges::copy(bytes, to.begin());
  verifier_->update(to);
  arrived_ += bytes.size();
  if (arrived_ == bundle_.size()) outcome_ = verifier_->finish(place());
}

Status CopyFetch::check(const PieceHeader& header) const {
  if (header.is_kept == 0) return failure(Errc::not_found, place() + " has no copy");
  if (Status fits = check_room(place(), bundle_.size(), header.bundle_bytes); !fits) return fits;
  if (header.size > 0 && header.size <= bundle_.size() - arrived_) return {};
  return failure(Errc::corrupt, fmt::format("{}: a piece of {} bytes where {} of {} are missing", place(),
                                            header.size, bundle_.size() - arrived_, bundle_.size()));
}

}  // namespace trimtab
