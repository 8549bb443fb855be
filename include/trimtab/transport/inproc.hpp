// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/transport/transport.hpp>

#include <memory>
#include <vector>

namespace trimtab {

/// Ranks are threads of this process: one end per rank, in rank order. A message is one memcpy from the
/// sender's memory to the receiver's, made by whichever side posts second. Each end may be moved to its
/// rank's thread; the ends share state and may be destroyed in any order.
/// @return `invalid_argument` when `num_ranks < 1`.
[[nodiscard]] Result<std::vector<std::unique_ptr<Transport>>> make_inproc_transports(std::int32_t num_ranks);

}  // namespace trimtab
