// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/core/result.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "moe/text/config.hpp"
#include "moe/text/sampling.hpp"

namespace trimtab::moe {

/// What requests of one kind ask about.
struct TextDomain {
  std::string name;
  std::string source;              ///< What messages call it.
  std::vector<std::uint8_t> text;  ///< Prompts are stretches of it.
};

/// Requests for text, and how their domains follow one another: over a run each prevails in its turn.
struct TextTraffic {
  std::vector<TextDomain> domains;
  std::size_t prompt_bytes = 96;  ///< The byte 0 before them not counted.
  std::size_t new_bytes = 32;     ///< To be said by the model.
  Sampling sampling;
  std::uint64_t seed = 1;          ///< Of domains and prompts.
  std::uint64_t num_forwards = 1;  ///< Of the run, over which the mix shifts.

  /// Bytes of a sequence that go through the model: the last one said does not.
  [[nodiscard]] std::size_t num_positions() const noexcept { return prompt_bytes + new_bytes; }
};

/// @return `invalid_argument` naming domain, value and limit when there is no domain, a text is shorter than
/// a
///         prompt or has a byte 0, nothing is to be said, or a sequence is longer than the model's context.
[[nodiscard]] Status check_traffic(const TextTraffic& traffic, const TextConfig& config);

struct TextRequest {
  std::uint64_t id = 0;
  std::size_t domain = 0;
  std::vector<std::uint8_t> prompt{};  ///< Byte 0, then `prompt_bytes` of the domain.
};

/// Share of the domains among requests that arrive with `forward`: one prevails, and hands over to the next.
[[nodiscard]] std::vector<double> mix_at(const TextTraffic& traffic, Forward forward);

/// The request `index` of those that `rank` serves, arriving with `forward`: a function of its arguments.
[[nodiscard]] TextRequest make_request(const TextTraffic& traffic, Rank rank, std::uint64_t index,
                                       Forward forward);

}  // namespace trimtab::moe
