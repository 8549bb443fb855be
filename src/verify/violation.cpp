// SPDX-License-Identifier: Apache-2.0
#include "verify/violation.hpp"

#include <fmt/format.h>

namespace trimtab::verify {

std::string_view to_string(Check check) noexcept {
  constexpr std::string_view names[]{
      "served bytes", "one epoch",       "one view",    "rolled back", "unnamed bytes",
      "addresses",    "step of program", "bytes moved", "staging",     "coverage",
      "deadline",     "doubt",           "counts",      "corruption",  "alive"};
  return names[static_cast<std::size_t>(check)];
}

std::string to_string(const Violation& violation) {
  return fmt::format("{}: {}", to_string(violation.check), violation.what);
}

}  // namespace trimtab::verify
