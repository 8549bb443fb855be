// SPDX-License-Identifier: Apache-2.0
#include "migrate/message.hpp"

namespace trimtab {

std::string_view to_string(MessageKind kind) noexcept {
  switch (kind) {
    case MessageKind::propose:
      return "propose";
    case MessageKind::agreement:
      return "agreement";
    case MessageKind::start:
      return "start";
    case MessageKind::vote:
      return "vote";
    case MessageKind::decision:
      return "decision";
    case MessageKind::acknowledgement:
      return "acknowledgement";
    case MessageKind::release:
      return "release";
  }
  return "unknown";
}

}  // namespace trimtab
