// SPDX-License-Identifier: Apache-2.0
#include "migrate/message.hpp"

#include <trimtab/core/checksum.hpp>

#include <cstddef>

namespace trimtab {
namespace {

std::uint64_t checksum_of_fields(const Message& message) noexcept {
  return checksum_of(std::as_bytes(std::span(&message, 1)).first(offsetof(Message, checksum)));
}

}  // namespace

void seal(Message& message) noexcept { message.checksum = checksum_of_fields(message); }

bool is_intact(const Message& message) noexcept {
  return message.magic == Message::magic_value && message.checksum == checksum_of_fields(message);
}

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
