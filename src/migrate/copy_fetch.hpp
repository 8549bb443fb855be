// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "migrate/copy_pieces.hpp"
#include "weights/bundle_verifier.hpp"

#include <trimtab/core/ids.hpp>
#include <trimtab/core/result.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace trimtab {

/// One try to get one bundle from one keeper: asks for pieces, puts them together, verifies them.
class CopyFetch {
 public:
  struct Wanted {
    LayerId layer;
    ExpertId expert;
    Rank keeper;
  };

  /// `number` is of this try alone. Borrows `bundle`, which is not empty.
  CopyFetch(std::uint64_t number, const Wanted& wanted, std::span<std::byte> bundle, std::size_t piece_bytes)
      : number_(number), wanted_(wanted), bundle_(bundle), piece_bytes_(piece_bytes) {}

  [[nodiscard]] const Wanted& wanted() const noexcept { return wanted_; }
  /// Where it is, for messages.
  [[nodiscard]] std::string place() const;

  /// What to ask for next, unless `ahead` pieces are on their way, or all were asked for.
  [[nodiscard]] std::optional<PieceRequest> next_request(std::size_t ahead);
  /// Takes what was answered. False, and no effect, for what belongs to another try or comes twice.
  bool take(Rank from, std::span<const std::byte> message);

  /// Bytes so far.
  [[nodiscard]] std::size_t arrived() const noexcept { return arrived_; }
  [[nodiscard]] bool is_over() const noexcept { return outcome_.has_value(); }
  /// Precondition: it is over.
  [[nodiscard]] Status outcome() const { return *outcome_; }

 private:
  void take_piece(const PieceHeader& header, std::span<const std::byte> bytes);
  /// Whether the keeper has the bundle that is wanted, in the right size; and always the same.
  [[nodiscard]] Status check(const PieceHeader& header) const;

  std::uint64_t number_;
  Wanted wanted_;
  std::span<std::byte> bundle_;
  std::size_t piece_bytes_;
  std::size_t asked_ = 0;    ///< Bytes.
  std::size_t arrived_ = 0;  ///< Bytes: all below are there.
  std::optional<BundleVerifier> verifier_;
  std::optional<Status> outcome_;
};

}  // namespace trimtab
