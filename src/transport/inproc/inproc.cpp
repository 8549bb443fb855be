// SPDX-License-Identifier: Apache-2.0
#include <trimtab/transport/inproc.hpp>

#include "transport/inproc/end.hpp"

#include <fmt/format.h>

namespace trimtab {

Result<std::vector<std::unique_ptr<Transport>>> make_inproc_transports(std::int32_t num_ranks) {
  if (num_ranks < 1) return failure(Errc::invalid_argument, fmt::format("inproc: {} ranks < 1", num_ranks));
  const auto channel = std::make_shared<inproc::Channel>(num_ranks);
  std::vector<std::unique_ptr<Transport>> ends;
  for (Rank rank : ids<Rank>(num_ranks)) ends.push_back(std::make_unique<inproc::End>(channel, rank));
  return ends;
}

}  // namespace trimtab
