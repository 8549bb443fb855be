// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/transport/bootstrap.hpp>

#include "transport/socket.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace trimtab {

/// What goes over a bootstrap connection: one of these from a rank to rank 0, one back. Between machines of
/// one kind: numbers as they lie in memory.
struct FrameHeader {
  std::uint64_t magic = 0;
  std::uint32_t version = 0;
  std::int32_t rank = 0;       ///< The sender.
  std::int32_t num_ranks = 0;  ///< As the sender knows it.
  std::uint32_t code = 0;      ///< An Errc: other than ok, the payload is its message.
  std::uint64_t job = 0;       ///< Hash of the job's id.
  std::uint64_t size_bytes = 0;
  std::uint64_t checksum = 0;  ///< Of the payload, seeded with the job.
};

/// The most that one rank gives.
inline constexpr std::size_t max_blob_bytes = std::size_t{1} << 20;

/// Header and payload, ready to be sent.
[[nodiscard]] std::vector<std::byte> make_frame(const Bootstrap& bootstrap, Errc code,
                                                std::span<const std::byte> payload);

/// One frame that arrives piece by piece.
class FrameReader {
 public:
  explicit FrameReader(std::size_t max_payload_bytes) : max_payload_bytes_(max_payload_bytes) {}

  /// Takes what has arrived; true when the frame is complete.
  /// @return `corrupt` when it is no frame of ours, `version_mismatch`, `peer_lost`.
  Result<bool> read_some(const Socket& socket);

  [[nodiscard]] const FrameHeader& header() const noexcept { return header_; }
  [[nodiscard]] std::vector<std::byte>& payload() noexcept { return payload_; }

 private:
  Status take_header();

  std::size_t max_payload_bytes_;
  FrameHeader header_;
  std::vector<std::byte> payload_;
  std::size_t num_read_ = 0;  ///< Of header and payload.
};

}  // namespace trimtab
