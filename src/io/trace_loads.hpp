// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "io/json_text.hpp"
#include "io/trace_file.hpp"

#include <trimtab/core/load_matrix.hpp>
#include <trimtab/core/result.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace trimtab {

/// Which tokens of a trace become loads, and how many matrices they make.
struct TraceFold {
  std::optional<TracePhase> phase;      ///< Only tokens of it.
  std::optional<std::uint64_t> window;  ///< Tokens (of the phase) of a step, > 0; none: one step of all.
};

/// The loads of a trace: of every layer of the model, how many tokens chose each expert. Layers without
/// experts are zero.
struct TraceLoads {
  std::vector<LoadMatrix> steps;  ///< In the order of the file; the last window may be shorter.
  std::uint64_t num_tokens = 0;   ///< That were folded.
  std::uint64_t num_prefill = 0;  ///< Of these.
  std::uint64_t num_requests = 0;

  /// All steps together.
  [[nodiscard]] LoadMatrix total() const;
};

/// Reads the whole trace, and checks all of it whatever is folded.
/// @return the errors of `TraceFile::scan`; `invalid_argument` when no token is of the phase, or when the
///         windows are too many: more than 100,000,000 loads.
[[nodiscard]] Result<TraceLoads> fold_trace(const TraceFile& trace, const TraceFold& fold = {},
                                            const ReadProgress& progress = {});

}  // namespace trimtab
