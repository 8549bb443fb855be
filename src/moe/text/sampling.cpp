// SPDX-License-Identifier: Apache-2.0
#include "moe/text/sampling.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "moe/rng.hpp"

namespace trimtab::moe {

double bits_of(std::span<const float> logits, std::uint8_t byte) noexcept {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  return (std::log(sum) + largest - static_cast<double>(logits[byte])) * std::numbers::log2e;
}

std::uint8_t choose_byte(std::span<const float> logits, const Sampling& sampling, std::uint64_t request,
                         std::uint64_t position) noexcept {
  const auto best = std::ranges::max_element(logits);
  if (sampling.temperature <= 0.0) return static_cast<std::uint8_t>(best - logits.begin());
  const auto weight = [&](float logit) {
    return std::exp((static_cast<double>(logit) - static_cast<double>(*best)) / sampling.temperature);
  };
  double sum = 0.0;
  for (const float logit : logits) sum += weight(logit);
  const RandomStream random(sampling.seed, Use::sample, request, position);
  double left = random.unit(0) * sum;
  std::size_t byte = 0;
  for (; byte + 1 < logits.size(); ++byte) {
    left -= weight(logits[byte]);
    if (left < 0.0) break;
  }
  return static_cast<std::uint8_t>(byte);
}

}  // namespace trimtab::moe
