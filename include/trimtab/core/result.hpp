// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <source_location>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace trimtab {

/// Kinds of failure. Small, numbered and frozen: shared with every binding.
enum class Errc : std::uint8_t {
  ok = 0,
  invalid_argument = 1,   ///< The caller's value is out of its stated domain.
  infeasible = 2,         ///< Well-formed, but no answer exists under the given limits.
  not_found = 3,          ///< A named thing does not exist.
  unavailable = 4,        ///< Not built, or not usable on this machine.
  timeout = 5,            ///< A deadline passed.
  cancelled = 6,          ///< Given up on request.
  closed = 7,             ///< The object is in its terminal state.
  peer_lost = 8,          ///< Another rank is gone.
  io = 9,                 ///< The operating system refused a read or a write.
  corrupt = 10,           ///< Bytes are not what they must be.
  version_mismatch = 11,  ///< Both sides are sound, but of different versions or epochs.
  internal = 12,          ///< A defect of trimtab.
};

/// The name of a code as written above, for messages.
[[nodiscard]] std::string_view to_string(Errc code) noexcept;

/// One failure: what kind, one line for a person with the value and the limit, and where it was decided.
struct [[nodiscard]] Error {
  Errc code = Errc::internal;
  std::string message;
  std::source_location where = std::source_location::current();
};

/// A value or an Error. Member names are those of std::expected. Success costs no allocation.
template <class T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using tl::expected<T, Error>::expected;
};

/// Success or an Error.
using Status = Result<void>;

/// Makes the failure value: `return failure(Errc::infeasible, fmt::format(…));`
[[nodiscard]] inline tl::unexpected<Error> failure(
    Errc code, std::string message, std::source_location where = std::source_location::current()) {
  return tl::unexpected<Error>(Error{code, std::move(message), where});
}

/// Passes an error up whole: `if (!a) return failure(std::move(a));`
template <class T>
[[nodiscard]] tl::unexpected<Error> failure(Result<T>&& failed) {
  return tl::unexpected<Error>(std::move(failed).error());
}

}  // namespace trimtab
