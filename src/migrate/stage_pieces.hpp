// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/transport/transport.hpp>
#include <trimtab/weights/tensor_spec.hpp>

#include <cstddef>
#include <deque>
#include <span>
#include <vector>

namespace trimtab {

/// Most bytes of a bundle that are worked on between two looks at the clock, whatever the bundle's size: what
/// was checksummed is still in the second-level cache when it is copied, and a caller is not held much longer
/// than it asked for.
inline constexpr std::size_t piece_bytes = std::size_t{256} << 10;

/// How many pieces of a bundle may be on their way at once, on either side.
inline constexpr std::size_t pieces_in_flight = 4;

/// Where a piece lies in one tensor of its bundle; one message.
struct TensorPart {
  std::size_t tensor;
  std::size_t offset;  ///< In the tensor's payload.
  std::size_t size;
};

/// The piece that begins at `offset` of a bundle, in the order of the bundle. Both ranks cut alike.
[[nodiscard]] std::vector<TensorPart> piece_at(std::span<const TensorSpec> tensors, std::size_t offset);

/// Pieces of one bundle that are posted, the oldest first.
class PostedPieces {
 public:
  [[nodiscard]] bool is_empty() const noexcept { return tickets_.empty(); }
  [[nodiscard]] bool is_full() const noexcept { return tickets_.size() >= pieces_in_flight; }

  void push(Ticket ticket) { tickets_.push_back(ticket); }
  /// Forgets the oldest piece if it is through. @return whether it was; a transport's error.
  Result<bool> take_done(Transport& channel);
  /// Gives up all. They stay posted until `settle` says otherwise.
  void cancel(Transport& channel) noexcept;
  /// Forgets what is terminal. @return whether nothing is posted any more.
  bool settle(Transport& channel);

 private:
  std::deque<Ticket> tickets_;
};

}  // namespace trimtab
