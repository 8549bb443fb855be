// SPDX-License-Identifier: Apache-2.0
#include "migrate/view_message.hpp"

#include <trimtab/core/checksum.hpp>

#include <cstddef>
#include <span>

namespace trimtab {
namespace {

std::uint64_t checksum_of_fields(const ViewMessage& message) noexcept {
  return checksum_of(std::as_bytes(std::span(&message, 1)).first(offsetof(ViewMessage, checksum)));
}

}  // namespace

void seal(ViewMessage& message) noexcept { message.checksum = checksum_of_fields(message); }

bool is_intact(const ViewMessage& message) noexcept {
  return message.magic == ViewMessage::magic_value && message.checksum == checksum_of_fields(message);
}

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
