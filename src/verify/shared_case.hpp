// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "verify/forward_board.hpp"
#include "verify/trial_report.hpp"
#include "verify/violation.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace trimtab::verify {

/// How far a process is with its case.
enum class RankPhase : std::uint32_t {
  starting,
  serving,
  done,      ///< Nothing is left to do here, but others may need it.
  finished,  ///< Its record is complete, and its engine is called no more.
};

/// A line of text in shared memory; longer text is cut.
class SharedText {
 public:
  void set(std::string_view text) noexcept { text_[text.copy(text_.data(), text_.size() - 1)] = '\0'; }
  [[nodiscard]] const char* get() const noexcept { return text_.data(); }
  [[nodiscard]] bool is_empty() const noexcept { return text_[0] == '\0'; }

 private:
  std::array<char, 400> text_{};
};

/// What one process tells. Written by it alone, but for `is_gone`; read by all when `phase` says so.
struct RankRecord {
  std::atomic<RankPhase> phase{RankPhase::starting};
  std::atomic<bool> is_gone{false};     ///< By the parent, when the process has ended.
  std::atomic<bool> is_stopped{false};  ///< About to stop, or stopped.
  std::atomic<std::uint32_t> view_now{0};
  std::atomic<std::uint64_t> struck{0};  ///< Bit by fault of the case.

  bool is_out = false;
  SharedText doubt;           ///< Why it is out.
  std::uint64_t members = 0;  ///< Bit by rank.
  std::uint32_t view = 0;
  std::uint64_t epoch = 0;
  std::uint64_t placement = 0;  ///< A hash.
  TrialCounts counts;
  bool has_violation = false;
  Check check = Check::alive;
  SharedText what;
  SharedText error;  ///< Why it could not begin.

  void set_violation(const Violation& violation) noexcept {
    has_violation = true;
    check = violation.check;
    what.set(violation.what);
  }
};

/// What the processes of one case share, past all transports. Zeroed memory is a new one.
struct SharedCase {
  ForwardBoard board;
  std::array<RankRecord, static_cast<std::size_t>(ForwardBoard::max_ranks)> ranks;
};

}  // namespace trimtab::verify
