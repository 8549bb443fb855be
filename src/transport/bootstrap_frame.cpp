// SPDX-License-Identifier: Apache-2.0
#include "transport/bootstrap_frame.hpp"

#include <trimtab/core/checksum.hpp>

#include <fmt/format.h>

#include <cstring>

namespace trimtab {
namespace {

constexpr std::uint64_t frame_magic = 0x7472696d74616231;  // "trimtab1"
constexpr std::uint32_t frame_version = 1;

}  // namespace

std::vector<std::byte> make_frame(const Bootstrap& bootstrap, Errc code, std::span<const std::byte> payload) {
  const std::uint64_t job = checksum_of(std::as_bytes(std::span(bootstrap.job)));
  const FrameHeader header{.magic = frame_magic,
                           .version = frame_version,
                           .rank = bootstrap.rank.value(),
                           .num_ranks = bootstrap.num_ranks,
                           .code = static_cast<std::uint32_t>(code),
                           .job = job,
                           .size_bytes = payload.size(),
                           .checksum = checksum_of(payload, job)};
  std::vector<std::byte> frame(sizeof header + payload.size());
  std::memcpy(frame.data(), &header, sizeof header);
  if (!payload.empty()) std::memcpy(frame.data() + sizeof header, payload.data(), payload.size());
  return frame;
}

Status FrameReader::take_header() {
  if (header_.magic != frame_magic) return failure(Errc::corrupt, "what arrived is not of trimtab");
  if (header_.version != frame_version) {
    return failure(Errc::version_mismatch,
                   fmt::format("bootstrap version {}, here it is {}", header_.version, frame_version));
  }
  if (header_.size_bytes > max_payload_bytes_) {
    return failure(Errc::corrupt,
                   fmt::format("{} bytes > {}, the most expected", header_.size_bytes, max_payload_bytes_));
  }
  payload_.resize(header_.size_bytes);
  return {};
}

Result<bool> FrameReader::read_some(const Socket& socket) {
  const std::span<std::byte> header = std::as_writable_bytes(std::span(&header_, 1));
  while (num_read_ < sizeof header_ + payload_.size()) {
    const bool is_in_header = num_read_ < sizeof header_;
    const std::span<std::byte> rest =
        is_in_header ? header.subspan(num_read_) : std::span(payload_).subspan(num_read_ - sizeof header_);
    const Result<std::size_t> size = socket.receive_some(rest);
    if (!size) return tl::unexpected(size.error());
    if (*size == 0) return false;
    num_read_ += *size;
    if (is_in_header && num_read_ == sizeof header_) {
      if (Status taken = take_header(); !taken) return failure(std::move(taken));
    }
  }
  if (checksum_of(payload_, header_.job) != header_.checksum)
    return failure(Errc::corrupt, "the checksum of what arrived is wrong");
  return true;
}

}  // namespace trimtab
