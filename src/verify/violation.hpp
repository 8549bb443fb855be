// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace trimtab::verify {

/// What is checked; see docs/design/0014-verify.md.
enum class Check : std::uint8_t {
  served_bytes,     ///< A batch reads the experts that its table names (M1).
  one_epoch,        ///< All ranks serve a forward under one epoch, and end in one (M2).
  one_view,         ///< Those that serve have one view, and nobody serves that is not in it.
  rolled_back,      ///< After a rollback all bytes are as before (M3).
  unnamed_bytes,    ///< A commit writes what the step names and nothing else (M4).
  addresses,        ///< Storage bases and format tags stay (M4).
  step_of_program,  ///< What is committed is the next step of the program that was begun, and only once.
  bytes_moved,      ///< As many bytes cross ranks as the program said, its lower bound.
  staging,          ///< No rank stages more than its budget (M8).
  coverage,         ///< Every placement on the way serves every expert (I1).
  deadline,         ///< Every step ends in time (M9).
  doubt,            ///< In doubt only after a yes and a lost message, a pause or a jump of time.
  counts,           ///< Counts folded by epoch are what was routed (R5).
  corruption,       ///< A damaged payload is found before the vote (M7).
  alive,            ///< Without faults a program commits, whatever happened before.
};

[[nodiscard]] std::string_view to_string(Check check) noexcept;

/// A check that failed.
struct Violation {
  Check check = Check::served_bytes;
  std::uint64_t seed = 0;  ///< Of the case.
  std::string what;        ///< One line: where, and what was found instead of what.
};

/// "served bytes: rank 2, …"
[[nodiscard]] std::string to_string(const Violation& violation);

/// Where a case tells its story, line by line; empty: nowhere.
using Story = std::function<void(const std::string& line)>;

}  // namespace trimtab::verify
