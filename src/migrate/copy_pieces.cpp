// SPDX-License-Identifier: Apache-2.0
#include "migrate/copy_pieces.hpp"

#include <algorithm>

namespace trimtab {

void answer_request(const PieceRequest& request, const HostCopySource* copies, std::vector<std::byte>& to) {
  const LayerId layer{request.layer};
  const ExpertId expert{request.expert};
  PieceHeader header{.fetch = request.fetch};
  std::span<const std::byte> piece;
  if (copies != nullptr && copies->holds(layer, expert)) {
    const auto bundle = copies->bundle(layer, expert);
    const std::uint64_t offset = std::min<std::uint64_t>(request.offset, bundle.size());
    piece = bundle.subspan(offset, std::min<std::uint64_t>(request.size, bundle.size() - offset));
    header.is_kept = 1;
    header.offset = offset;
    header.size = piece.size();
    header.bundle_bytes = bundle.size();
    header.bundle_checksum = copies->checksum(layer, expert);
  }
  seal(header);
  const auto head = std::as_bytes(std::span(&header, 1));
  to.assign(head.begin(), head.end());
  to.insert(to.end(), piece.begin(), piece.end());
}

}  // namespace trimtab
