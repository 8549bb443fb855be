// SPDX-License-Identifier: Apache-2.0
#include "moe/text/traffic.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "moe/rng.hpp"

namespace trimtab::moe {
namespace {

/// Of all requests, how many are of the domain whose turn it is; the others share the rest.
constexpr double prevailing_share = 0.85;

Status check_domain(const TextDomain& domain, std::size_t prompt_bytes) {
  if (domain.text.size() < prompt_bytes) {
    return failure(Errc::invalid_argument, fmt::format("{}: {} bytes < {}, the length of a prompt",
                                                       domain.source, domain.text.size(), prompt_bytes));
  }
  const auto zero = std::ranges::find(domain.text, begin_byte);
  if (zero == domain.text.end()) return {};
  return failure(Errc::invalid_argument, fmt::format("{}: byte {} is 0, which begins every text",
                                                     domain.source, zero - domain.text.begin()));
}

}  // namespace

Status check_traffic(const TextTraffic& traffic, const TextConfig& config) {
  if (traffic.domains.empty()) return failure(Errc::invalid_argument, "no text to take prompts from");
  if (traffic.prompt_bytes < 1 || traffic.new_bytes < 1) {
    return failure(Errc::invalid_argument,
                   fmt::format("{} bytes of prompt and {} to be said: both must be at least 1",
                               traffic.prompt_bytes, traffic.new_bytes));
  }
  if (traffic.num_positions() > config.positions()) {
    return failure(Errc::invalid_argument,
                   fmt::format("{} bytes of prompt and {} to be said > {}, the model's context",
                               traffic.prompt_bytes, traffic.new_bytes, config.context));
  }
  for (const TextDomain& domain : traffic.domains) {
    if (Status checked = check_domain(domain, traffic.prompt_bytes); !checked) return checked;
  }
  return {};
}

std::vector<double> mix_at(const TextTraffic& traffic, Forward forward) {
  const auto count = static_cast<double>(traffic.domains.size());
  const double others = traffic.domains.size() == 1 ? 0.0 : (1.0 - prevailing_share) / (count - 1.0);
  const double own = 1.0 - others * (count - 1.0);
  const double end = std::max(1.0, static_cast<double>(traffic.num_forwards) - 1.0);
  const double at = std::min(1.0, static_cast<double>(forward.value()) / end) * (count - 1.0);
  std::vector<double> mix;
  for (std::size_t d = 0; d < traffic.domains.size(); ++d) {
    const double turn = std::max(0.0, 1.0 - std::fabs(at - static_cast<double>(d)));
    mix.push_back(others + (own - others) * turn);
  }
  return mix;
}

TextRequest make_request(const TextTraffic& traffic, Rank rank, std::uint64_t index, Forward forward) {
  const std::uint64_t id = static_cast<std::uint64_t>(rank.value()) << 32 | index;
  const RandomStream random(traffic.seed, Use::request, id, 0);
  TextRequest request{.id = id, .domain = 0, .prompt = {begin_byte}};
  double left = random.unit(0);
  const std::vector<double> mix = mix_at(traffic, forward);
  while (request.domain + 1 < mix.size() && left >= mix[request.domain]) left -= mix[request.domain++];
  const std::vector<std::uint8_t>& text = traffic.domains[request.domain].text;
  const std::size_t begin = random.bits(1) % (text.size() - traffic.prompt_bytes + 1);
  request.prompt.insert(request.prompt.end(), text.begin() + static_cast<std::ptrdiff_t>(begin),
                        text.begin() + static_cast<std::ptrdiff_t>(begin + traffic.prompt_bytes));
  return request;
}

}  // namespace trimtab::moe
