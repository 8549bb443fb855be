// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/result.hpp>

namespace trimtab {

std::string_view to_string(Errc code) noexcept {
  switch (code) {
    case Errc::ok:
      return "ok";
    case Errc::invalid_argument:
      return "invalid_argument";
    case Errc::infeasible:
      return "infeasible";
    case Errc::not_found:
      return "not_found";
    case Errc::unavailable:
      return "unavailable";
    case Errc::timeout:
      return "timeout";
    case Errc::cancelled:
      return "cancelled";
    case Errc::closed:
      return "closed";
    case Errc::peer_lost:
      return "peer_lost";
    case Errc::io:
      return "io";
    case Errc::corrupt:
      return "corrupt";
    case Errc::version_mismatch:
      return "version_mismatch";
    case Errc::internal:
      return "internal";
  }
  return "unknown";
}

}  // namespace trimtab
