// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "migrate/rank_set.hpp"
#include "migrate/seal.hpp"

#include <trimtab/core/ids.hpp>
#include <trimtab/core/result.hpp>

#include <cstdint>
#include <string_view>
#include <type_traits>

namespace trimtab {

/// What the ranks of a view say to each other to end it. From a taker: prepare, outcome, chosen.
enum class ViewMessageKind : std::uint32_t {
  prepare = 1,  ///< I take over: follow nothing older.
  promise,      ///< I do not; here is what I have done, and the newest outcome that I have accepted.
  outcome,      ///< The view shall end so.
  accept,       ///< It may.
  chosen,       ///< A quorum has accepted: it has ended so.
};

[[nodiscard]] std::string_view to_string(ViewMessageKind kind) noexcept;

/// How a view ends, and who is in the next one.
struct ViewEnd {
  std::uint64_t attempt = 0;  ///< The step that is committed; 0: what is in hand is rolled back.
  std::uint64_t resume = 0;   ///< First forward of the next view: some member has not finished it.
  RankSet members;            ///< Of the next view.

  friend bool operator==(const ViewEnd&, const ViewEnd&) = default;
};

/// Whom a forward of a rank has waited for beyond its deadline, and still does.
struct Unheard {
  std::uint64_t forward = 0;
  RankSet peers;
};

/// One message of a take-over as it travels: fixed size, no pointers, no padding.
struct ViewMessage {
  static constexpr std::uint32_t magic_value = 0x54545631;  // "TTV1"

  std::uint32_t magic = magic_value;
  ViewMessageKind kind = ViewMessageKind::prepare;
  std::uint32_t view = 0;             ///< The one that ends.
  std::uint32_t ballot = 0;           ///< Belongs to one rank.
  std::uint32_t accepted_ballot = 0;  ///< Promise: under which `end` was accepted; 0: none was.
  std::int32_t rank = 0;              ///< The sender.
  std::uint64_t attempt = 0;          ///< Promise: the step that its rank has committed; 0: none in hand.
  std::uint64_t finished = 0;         ///< Promise: all forwards below are done.
  Unheard unheard{};                  ///< Promise.
  ViewEnd end{};                      ///< Promise, outcome, chosen.
  std::uint64_t checksum = 0;         ///< Of all before it; set by `seal`.
};
static_assert(std::has_unique_object_representations_v<ViewMessage>);

}  // namespace trimtab
