// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "io/json_text.hpp"
#include "io/trace_format.hpp"

#include <trimtab/core/ids.hpp>
#include <trimtab/core/result.hpp>
#include <trimtab/weights/safetensors.hpp>

#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace trimtab {

/// Some tokens of a trace, one behind the other. Valid while it is visited.
struct TraceBatch {
  std::span<const TraceToken> tokens;
  std::span<const ExpertId> experts;  ///< [tokens][rows][top_k], best first.
};

/// A file of the experts that tokens chose (docs/formats/trace.md), open for reading. Nothing of it is kept
/// in memory but what is being looked at.
///
/// Threads: const calls may run together. Errors: `invalid_argument` in one line naming file, token, layer,
/// value and limit.
class TraceFile {
 public:
  /// Checks everything but the tokens.
  /// @return `not_found` or `io` when the file cannot be read; `invalid_argument` when it is no trace.
  static Result<TraceFile> open(const std::string& path);

  [[nodiscard]] const std::string& path() const noexcept { return file_.path(); }
  [[nodiscard]] const TraceInfo& info() const noexcept { return info_; }
  [[nodiscard]] std::uint64_t num_tokens() const noexcept { return num_tokens_; }

  using Visit = std::function<void(const TraceBatch&)>;
  /// Hands all tokens to `visit`, in the order of the file, each after it was checked. What was visited
  /// before an error is good, but not the whole trace: throw it away.
  [[nodiscard]] Status scan(const Visit& visit, const ReadProgress& progress = {}) const;

 private:
  struct Tensors {
    const SafetensorsTensor* request;
    const SafetensorsTensor* position;
    const SafetensorsTensor* experts;
    const SafetensorsTensor* phase;
  };
  TraceFile(SafetensorsFile file, TraceInfo info, Tensors tensors);

  class Reader;

  SafetensorsFile file_;
  TraceInfo info_;
  Tensors tensors_;  ///< In `file_`, whose contents stay where they are when it moves.
  std::uint64_t num_tokens_;
};

}  // namespace trimtab
