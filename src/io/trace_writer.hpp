// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "io/trace_format.hpp"

#include <trimtab/core/ids.hpp>
#include <trimtab/core/result.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace trimtab {

/// Writes a trace token by token; how many there will be need not be known. It appears under its name whole,
/// or not at all. Columns wait in files without a name beside it, so that memory does not grow with the
/// trace; until `commit` ends the disk holds it twice.
///
/// Lifecycle: create -> append … -> commit; destroyed before that, nothing is left behind. One thread at a
/// time.
class TraceWriter {
 public:
  /// @return `invalid_argument` as `check_trace_info`, `io` when nothing can be written beside `path`; naming
  ///         it.
  static Result<TraceWriter> create(const std::string& path, TraceInfo info);
  TraceWriter(TraceWriter&&) noexcept;
  TraceWriter& operator=(TraceWriter&&) noexcept;
  ~TraceWriter();

  /// The next tokens, in the order in which they were served, and what each chose: `experts` is
  /// [tokens][rows] [top_k], best first. Cheap: most calls only copy.
  /// @return `invalid_argument`, and nothing appended, naming file, token, layer and value for sizes that do
  ///         not agree, an id out of range, or an expert twice in a choice; `io`, and the trace is lost.
  Status append(std::span<const TraceToken> tokens, std::span<const ExpertId> experts);

  [[nodiscard]] std::uint64_t num_tokens() const noexcept;

  /// Puts the file in its place. Call once.
  /// @return `invalid_argument` for a trace without tokens; `io`. Whatever it returns but success, a file
  /// that
  ///         was there is unchanged.
  Status commit();

 private:
  struct State;
  explicit TraceWriter(std::unique_ptr<State> state) noexcept;

  std::unique_ptr<State> state_;
};

}  // namespace trimtab
