// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "migrate/stage_checksum.hpp"
#include "migrate/stage_context.hpp"
#include "migrate/stage_pieces.hpp"

#include <trimtab/core/checksum.hpp>
#include <trimtab/migrate/program.hpp>

#include <cstdint>
#include <optional>
#include <span>

namespace trimtab {

/// The failure of a bundle whose checksum is not the one taken at its source.
[[nodiscard]] Status checksum_mismatch(const Move& move, std::uint64_t expected, std::uint64_t found,
                                       std::string_view where);

/// One bundle that comes to a slot of this rank, until it is staged and verified, piece by piece.
class IncomingBundle {
 public:
  /// `staged`: where it is staged; of a displaced one, where the exchange of its source leaves it.
  IncomingBundle(const StageContext& context, const Move& move, std::span<std::byte> staged)
      : context_(context), move_(move), staged_(staged) {}
  /// One that is there already: what this rank has kept.
  IncomingBundle(const StageContext& context, const Move& move, std::span<std::byte> staged,
                 std::uint64_t checksum)
      : context_(context),
        move_(move),
        staged_(staged),
        checksum_(checksum),
        num_posted_(staged.size()),
        num_verified_(staged.size()) {}
  /// Says whose staged bytes are used, for `MoveKind::reuse` and for copies of what is kept. Before anything
  /// is done.
  void reuse(const IncomingBundle& origin) noexcept { origin_ = &origin; }

  [[nodiscard]] const Move& move() const noexcept { return move_; }
  [[nodiscard]] std::span<std::byte> staged() const noexcept { return staged_; }
  /// Taken at the source; known once done.
  [[nodiscard]] std::uint64_t checksum() const noexcept { return checksum_; }
  /// Whether it is read from a live slot of this rank.
  [[nodiscard]] bool reads_slot() const noexcept {
    return origin_ == nullptr && (move_.kind == MoveKind::local_copy || move_.kind == MoveKind::displaced);
  }

  [[nodiscard]] bool is_begun() const noexcept { return num_posted_ > 0; }
  /// Every receive has been posted; a later bundle of the same peer may be next.
  [[nodiscard]] bool is_posted() const noexcept { return num_posted_ == staged_.size(); }
  [[nodiscard]] bool is_done() const noexcept { return num_verified_ == staged_.size(); }

  /// At most one piece of work: takes in a piece that has come or, if `may_post`, begins the next.
  /// @return whether anything was done; `corrupt` when the whole does not verify; a transport's error.
  Result<bool> advance(bool may_post);

  void cancel() noexcept { pieces_.cancel(context_.channel); }
  [[nodiscard]] bool settle() { return pieces_.settle(context_.channel); }

 private:
  Result<bool> receive(bool may_post);
  Status post_next();
  Result<bool> copy_from_slot();
  Result<bool> reuse_staged();
  Result<bool> expect_displaced();
  Result<bool> recover();
  [[nodiscard]] std::span<std::byte> next_piece() const noexcept;
  void begin();
  Status verify_next();
  Status finish();

  const StageContext& context_;
  Move move_;
  std::span<std::byte> staged_;
  const IncomingBundle* origin_ = nullptr;  ///< Whose staged bytes are used.
  std::optional<Checksum> source_;          ///< Running, of what is read from a live slot.
  std::optional<BundleChecksum> found_;     ///< Of what is staged; of a displaced one, of its slot.
  std::uint64_t checksum_ = 0;
  std::size_t num_posted_ = 0;    ///< Bytes.
  std::size_t num_verified_ = 0;  ///< Bytes.
  PostedPieces pieces_;
};

}  // namespace trimtab
