// SPDX-License-Identifier: Apache-2.0
#include "moe/generated_tokens.hpp"

#include <trimtab/core/checksum.hpp>

#include <algorithm>

#include "moe/reference.hpp"
#include "moe/token_stream.hpp"

namespace trimtab::moe {

GeneratedTokens::GeneratedTokens(const ServiceOptions& options, Rank rank)
    : options_(options),
      rank_(rank),
      own_tokens_(static_cast<std::size_t>(options.tokens_per_rank)),
      batches_(options.block_forwards) {}

/// This rank's tokens, and its part of those of ranks that are gone.
std::vector<GeneratedTokens::Share> GeneratedTokens::make_shares(std::span<const Rank> members) const {
  std::vector<Share> shares{{rank_, 0, own_tokens_}};
  const auto index = static_cast<std::size_t>(std::ranges::find(members, rank_) - members.begin());
  for (Rank other : ids<Rank>(options_.topology.num_ranks())) {
    if (std::ranges::find(members, other) != members.end()) continue;
    const std::size_t first = own_tokens_ * index / members.size();
    const std::size_t last = own_tokens_ * (index + 1) / members.size();
    shares.push_back({other, first, last - first});
  }
  return shares;
}

void GeneratedTokens::load(std::span<const Rank> members, std::uint64_t begin, std::uint64_t end) {
  const std::vector<Share> shares = make_shares(members);
  const std::size_t width = options_.model.width();
  std::size_t tokens = 0;
  for (const Share& share : shares) tokens += share.count;
  for (std::uint64_t forward = begin; forward < end; ++forward) {
    batch(forward).shares = shares;
    batch(forward).states.resize(tokens * width);
    std::span<float> rest = batch(forward).states;
    for (const Share& share : shares) {
      fill_tokens(options_.model, Forward{forward}, share.rank, share.first, rest.first(share.count * width));
      rest = rest.subspan(share.count * width);
    }
  }
}

/// Spread evenly over the run, each rank beginning elsewhere.
bool GeneratedTokens::is_sample(std::uint64_t forward) const {
  const std::uint64_t every = std::max<std::uint64_t>(
      1, options_.forwards() / std::max<std::uint64_t>(1, options_.reference_batches));
  return options_.reference_batches > 0 &&
         (forward + static_cast<std::uint64_t>(rank_.value())) % every == every - 1;
}

void GeneratedTokens::end_block(ArmId arm, std::uint64_t begin, std::uint64_t end,
                                std::optional<std::uint64_t> repeated) {
  const std::size_t own = own_tokens_ * options_.model.width();
  for (std::uint64_t forward = begin; forward < end; ++forward) {
    const std::span<const float> output = batch(forward).states;
    note_output(arm, forward, checksum_of(std::as_bytes(output.first(own))));
    const bool has_taken_over = output.size() > own;
    if (has_taken_over)
      tokens_taken_over_ += static_cast<std::int64_t>((output.size() - own) / options_.model.width());
    const bool is_sampled = is_sample(forward) || (has_taken_over && forward == repeated);
    if (is_sampled && (arm == ArmId::off || has_taken_over)) samples_[forward] = batch(forward);
  }
}

ServedTokens GeneratedTokens::take(ArmId) noexcept {
  return {.tokens = static_cast<std::int64_t>(own_tokens_ * options_.block_forwards)};
}

bool GeneratedTokens::equals_reference() {
  return std::ranges::all_of(
      samples_, [this](const auto& sample) { return equals_reference(sample.first, sample.second); });
}

bool GeneratedTokens::equals_reference(std::uint64_t forward, const Batch& served) const {
  const std::size_t width = options_.model.width();
  std::vector<float> bias(options_.model.layers() * options_.model.experts());
  options_.schedule.bias_at(Forward{forward}, bias);
  std::span<const float> rest = served.states;
  for (const Share& share : served.shares) {
    std::vector<float> states(share.count * width);
    fill_tokens(options_.model, Forward{forward}, share.rank, share.first, states);
    run_reference(options_.model, bias, states);
    if (!std::ranges::equal(std::as_bytes(std::span(states)), std::as_bytes(rest.first(states.size()))))
      return false;
    rest = rest.subspan(states.size());
  }
  return true;
}

}  // namespace trimtab::moe
