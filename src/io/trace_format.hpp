// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/core/result.hpp>
#include <trimtab/weights/safetensors.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trimtab {

/// What a token was served for. The numbers are those of the file.
enum class TracePhase : std::uint8_t { prefill = 0, decode = 1 };
inline constexpr std::uint8_t num_trace_phases = 2;

/// "prefill", "decode".
[[nodiscard]] std::string_view to_string(TracePhase phase) noexcept;

/// Where a token stood.
struct TraceToken {
  TracePhase phase = TracePhase::prefill;
  std::uint32_t request = 0;
  std::uint32_t position = 0;  ///< In its request, from 0. With a model of bytes: the byte.

  friend bool operator==(const TraceToken&, const TraceToken&) = default;
};

/// What all tokens of a trace have in common (docs/formats/trace.md).
struct TraceInfo {
  std::string model;
  std::string domain;
  std::int32_t num_experts = 0;
  std::int32_t num_groups = 1;
  std::int32_t top_k = 0;
  std::int32_t num_layers = 0;  ///< Of the model, dense ones included.
  std::vector<LayerId> layers;  ///< The rows of a choice: ascending, each < num_layers.

  /// Experts that one token chooses, over all rows.
  [[nodiscard]] std::size_t choice_size() const noexcept {
    return layers.size() * static_cast<std::size_t>(top_k);
  }

  friend bool operator==(const TraceInfo&, const TraceInfo&) = default;
};

/// Ids of the largest trace take two bytes.
inline constexpr std::int32_t max_trace_experts = 1 << 16;
/// Layers times experts: what one matrix of loads of a trace may take.
inline constexpr std::int64_t max_trace_loads = 1 << 24;

inline constexpr std::string_view trace_format_name = "trimtab.trace/1";

/// The tensors of a trace, as they are called in the file.
inline constexpr std::string_view trace_layers_name = "layers";
inline constexpr std::string_view trace_request_name = "request";
inline constexpr std::string_view trace_position_name = "position";
inline constexpr std::string_view trace_experts_name = "topk_ids";
inline constexpr std::string_view trace_phase_name = "phase";

/// U8 for up to 256 experts, else U16.
[[nodiscard]] SafetensorsType trace_id_type(std::int32_t num_experts) noexcept;

/// @return `invalid_argument` naming the value and the limit when a trace cannot be of that: names that are
/// not
///         letters, digits and "._+-", sizes that are not positive or too large, groups that do not divide
///         the experts, layers that do not ascend or that the model does not have.
[[nodiscard]] Status check_trace_info(const TraceInfo& info);

/// What a file says of itself besides its tensors.
[[nodiscard]] SafetensorsMetadata trace_metadata(const TraceInfo& info);

/// Checks one choice after the other: that ids exist, and none is there twice. One per thread.
class ChoiceCheck {
 public:
  explicit ChoiceCheck(const TraceInfo& info);

  /// What is wrong with the choice of one token, [rows][top_k]: "layer 17: expert 300 is not in 0..255".
  /// Empty: nothing.
  [[nodiscard]] std::string problem_of(const ExpertId* choice);

 private:
  [[nodiscard]] std::string row_problem(LayerId layer, const ExpertId* row);

  const TraceInfo& info_;
  std::uint64_t num_rows_ = 0;          ///< Seen so far.
  std::vector<std::uint64_t> seen_in_;  ///< By expert: the last row that chose it, counted from 1.
};

}  // namespace trimtab
