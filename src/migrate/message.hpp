// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "migrate/seal.hpp"

#include <trimtab/core/ids.hpp>
#include <trimtab/core/result.hpp>

#include <cstdint>
#include <string_view>
#include <type_traits>

namespace trimtab {

/// What the ranks say to each other during a step. From the coordinator: propose, start, decision, release;
/// to it: the others.
enum class MessageKind : std::uint32_t {
  propose = 1,  ///< Here is a step: do you have the same program?
  agreement,    ///< Yes or no, with the reason.
  start,        ///< All agreed: move the bytes.
  vote,  ///< My bytes are staged and verified; `forward` is the first I will not begin undecided. Or no, with
         ///< the reason.
  decision,         ///< Commit at `forward`, or abort.
  acknowledgement,  ///< My slots and table are new.
  release,          ///< All are: displaced bundles may go.
};

[[nodiscard]] std::string_view to_string(MessageKind kind) noexcept;

/// One control message as it travels: fixed size, no pointers, no padding. Ranks of one job share byte order.
struct Message {
  static constexpr std::uint32_t magic_value = 0x54544d32;  // "TTM2"
  static constexpr std::uint64_t no_budget = ~std::uint64_t{0};

  std::uint32_t magic = magic_value;
  MessageKind kind = MessageKind::propose;
  std::uint32_t view = 0;
  std::uint32_t ballot = 0;
  std::uint64_t attempt = 0;  ///< Grows with every proposal; what belongs to an older one is ignored.
  std::uint64_t epoch = 0;    ///< In service before the step.
  std::uint64_t program_hash = 0;
  std::uint64_t forward = 0;  ///< Vote: hold. Decision: F.
  /// What the program was cut by, from the coordinator's measured rate; no_budget: by nothing.
  std::uint64_t stall_budget_bytes = no_budget;
  std::uint32_t step = 0;      ///< Index within the program.
  std::int32_t rank = 0;       ///< The sender.
  std::uint32_t yes = 0;       ///< Agreement, vote, decision.
  std::uint32_t reason = 0;    ///< An Errc when not yes.
  std::uint64_t checksum = 0;  ///< Of all before it; set by `seal`.
};
static_assert(std::has_unique_object_representations_v<Message> && sizeof(Message) == 80);

}  // namespace trimtab
