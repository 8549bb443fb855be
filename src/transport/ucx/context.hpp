// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/result.hpp>

#include <ucp/api/ucp.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace trimtab::ucx {

/// "ucx: CALL: what UCX says"
[[nodiscard]] std::string ucx_message(std::string_view call, ucs_status_t status);

/// How much goes into one segment of a tcp lane, if the environment does not say (UCX_TCP_TX_SEG_SIZE).
inline constexpr std::size_t segment_bytes = std::size_t{256} << 10;
/// Bytes of a message that go into one active message: with its headers, one segment.
inline constexpr std::size_t chunk_bytes = segment_bytes / 2 - 1024;

/// UCX with its devices, shared by the workers of a process. Safe from any thread.
class Context {
 public:
  /// Tunes what the environment leaves open, unless `is_tuned` is false.
  /// @return `unavailable`.
  static Result<std::shared_ptr<Context>> open(bool is_tuned);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  [[nodiscard]] ucp_context_h handle() const noexcept { return handle_; }

 private:
  explicit Context(ucp_context_h owned) noexcept : handle_(owned) {}
  ucp_context_h handle_;
};

}  // namespace trimtab::ucx
