// SPDX-License-Identifier: Apache-2.0
#include "migrate/view_message.hpp"

namespace trimtab {

std::string_view to_string(ViewMessageKind kind) noexcept {
  switch (kind) {
    case ViewMessageKind::prepare:
      return "prepare";
    case ViewMessageKind::promise:
      return "promise";
    case ViewMessageKind::outcome:
      return "outcome";
    case ViewMessageKind::accept:
      return "accept";
    case ViewMessageKind::chosen:
      return "chosen";
  }
  return "unknown";
}

}  // namespace trimtab
