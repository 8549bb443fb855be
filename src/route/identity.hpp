// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/route/routing_table.hpp>

#include <fmt/format.h>

#include <utility>

namespace trimtab {

/// The epoch rule of every publication: only what is newer replaces what is there.
inline Status check_newer(TableIdentity next, TableIdentity current) {
  if (std::pair(next.epoch, next.split_version) > std::pair(current.epoch, current.split_version)) return {};
  return failure(
      Errc::version_mismatch,
      fmt::format("routing table of epoch {}, split version {} is not newer than epoch {}, split version {}",
                  next.epoch.value(), next.split_version, current.epoch.value(), current.split_version));
}

}  // namespace trimtab
