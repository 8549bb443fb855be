// SPDX-License-Identifier: Apache-2.0
#include "moe/workload.hpp"

#include <algorithm>

#include "moe/generated_tokens.hpp"
#include "moe/text/workload.hpp"

namespace trimtab::moe {

bool Workload::arms_agree() const {
  return std::ranges::all_of(checksums_[0], [this](const auto& off) {
    const auto on = checksums_[1].find(off.first);
    return on != checksums_[1].end() && on->second == off.second;
  });
}

void Workload::note_output(ArmId arm, std::uint64_t forward, std::uint64_t checksum) {
  checksums_[static_cast<std::size_t>(arm)][forward] = checksum;
}

std::shared_ptr<const WeightSource> weights_of(const ServiceOptions& options) {
  if (options.text) return {options.text, &options.text->model};
  return std::make_shared<GeneratedWeights>(options.model);
}

std::unique_ptr<Workload> make_workload(const ServiceOptions& options, Rank rank) {
  if (options.text) return std::make_unique<TextWorkload>(options, rank);
  return std::make_unique<GeneratedTokens>(options, rank);
}

}  // namespace trimtab::moe
