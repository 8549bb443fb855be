// SPDX-License-Identifier: Apache-2.0
#include "moe/token_stream.hpp"

#include "moe/rng.hpp"

namespace trimtab::moe {

void fill_tokens(const ModelConfig& config, Forward forward, Rank rank, std::size_t first_token,
                 std::span<float> out) noexcept {
  constexpr float unit_variance = 1.7320508f;
  const RandomStream random(config.seed, Use::token, forward.value(),
                            static_cast<std::uint64_t>(rank.value()));
  const std::size_t first = first_token * config.width();
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = unit_variance * random.symmetric(first + i);
}

}  // namespace trimtab::moe
