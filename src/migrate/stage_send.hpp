// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "migrate/stage_checksum.hpp"
#include "migrate/stage_context.hpp"
#include "migrate/stage_pieces.hpp"
#include "migrate/stage_receive.hpp"

#include <trimtab/core/checksum.hpp>
#include <trimtab/migrate/program.hpp>

#include <cstdint>
#include <optional>
#include <span>

namespace trimtab {

/// One bundle that this rank sends, from a live slot or from what it has staged, piece by piece.
class OutgoingBundle {
 public:
  /// `relayed`: what is passed on once it is done; null: a live slot is sent.
  OutgoingBundle(const StageContext& context, const Move& move, const IncomingBundle* relayed);

  [[nodiscard]] const Move& move() const noexcept { return move_; }
  [[nodiscard]] bool reads_slot() const noexcept { return relayed_ == nullptr; }
  /// Whether there is something to send.
  [[nodiscard]] bool has_source() const noexcept { return relayed_ == nullptr || relayed_->is_done(); }

  [[nodiscard]] bool is_begun() const noexcept { return num_posted_ > 0; }
  /// Everything has been posted; a later bundle to the same peer may be next.
  [[nodiscard]] bool is_posted() const noexcept { return has_posted_checksum_; }
  [[nodiscard]] bool is_done() const noexcept { return is_posted() && pieces_.is_empty(); }

  /// At most one piece of work: lets go of a piece that is through or, if `may_post`, sends the next.
  /// @return whether anything was done; a transport's error.
  Result<bool> advance(bool may_post);

  void cancel() noexcept { pieces_.cancel(context_.channel); }
  [[nodiscard]] bool settle() { return pieces_.settle(context_.channel); }

 private:
  void begin();
  /// Whether the checksum is known only once the pieces are through.
  [[nodiscard]] bool is_watched() const noexcept;
  Status post_piece();
  Status post_checksum();
  Status post(std::span<const Leg> legs);
  [[nodiscard]] std::span<const std::byte> memory_of(const TensorPart& part) const noexcept;

  const StageContext& context_;
  Move move_;
  const IncomingBundle* relayed_;
  std::size_t size_;
  std::optional<BundleChecksum> source_;  ///< Of a live slot.
  std::uint64_t checksum_ = 0;
  std::size_t num_posted_ = 0;  ///< Bytes.
  bool has_posted_checksum_ = false;
  PostedPieces pieces_;
};

}  // namespace trimtab
