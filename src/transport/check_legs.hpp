// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/transport/transport.hpp>

#include <span>

namespace trimtab {

/// What every back-end refuses before it starts a leg.
/// @return `invalid_argument` naming the leg, its peer or tag, and the limit.
[[nodiscard]] Status check_legs(const Transport& transport, std::span<const Leg> legs);

/// The failure of a receive whose message has `message_bytes`.
[[nodiscard]] Error message_too_large(const Leg& receive, std::size_t message_bytes);

}  // namespace trimtab
