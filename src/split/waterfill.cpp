// SPDX-License-Identifier: Apache-2.0
#include <trimtab/split/split_solver.hpp>
#include <trimtab/split/waterfill.hpp>

#include "split/leveller.hpp"
#include "split/share_network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

namespace trimtab {
namespace {

Status check_rank_loads(std::span<const std::int64_t> rank_loads, std::int64_t num_tokens,
                        const Topology& topology) {
  if (rank_loads.size() != static_cast<std::size_t>(topology.num_ranks())) {
    return failure(Errc::invalid_argument, fmt::format("loads of {} ranks, the topology has {}",
                                                       rank_loads.size(), topology.num_ranks()));
  }
  std::int64_t sum = 0;
  const auto add = [&](std::int64_t value) {
    const bool fits = value >= 0 && value <= max_split_total - sum;
    if (fits) sum += value;
    return fits;
  };
  for (std::size_t r = 0; r < rank_loads.size(); ++r) {
    if (add(rank_loads[r])) continue;
    return failure(Errc::invalid_argument, fmt::format("rank {}: load {} is below 0, or the sum above {}", r,
                                                       rank_loads[r], max_split_total));
  }
  if (add(num_tokens)) return {};
  return failure(
      Errc::invalid_argument,
      fmt::format("{} shared-expert tokens are below 0, or the sum above {}", num_tokens, max_split_total));
}

Status check_tokens(const TokenRanks& tokens, const Topology& topology) {
  if (tokens.k < 0 || tokens.visited.size() != tokens.home.size() * static_cast<std::size_t>(tokens.k)) {
    return failure(Errc::invalid_argument, fmt::format("{} visited ranks for {} tokens x {}",
                                                       tokens.visited.size(), tokens.home.size(), tokens.k));
  }
  const auto is_rank = [&](Rank rank) { return rank.value() >= 0 && rank.value() < topology.num_ranks(); };
  for (std::size_t t = 0; t < tokens.home.size(); ++t) {
    if (is_rank(tokens.home[t]) && topology.is_alive(tokens.home[t])) continue;
    return failure(Errc::invalid_argument,
                   fmt::format("token {}: home {} is not a live rank", t, tokens.home[t].value()));
  }
  for (std::size_t i = 0; i < tokens.visited.size(); ++i) {
    if (tokens.visited[i] == Rank{-1} || is_rank(tokens.visited[i])) continue;
    return failure(Errc::invalid_argument, fmt::format("token {}: visited rank {} is not in -1..{}",
                                                       i / static_cast<std::size_t>(tokens.k),
                                                       tokens.visited[i].value(), topology.num_ranks() - 1));
  }
  return {};
}

double pressure(std::int64_t load, Rank rank, const Topology& topology) {
  return static_cast<double>(load) / topology.rank(rank).speed;
}

/// Live ranks, emptiest first.
std::vector<Rank> by_pressure(std::span<const std::int64_t> rank_loads, const Topology& topology) {
  std::vector<Rank> ranks;
  for (Rank rank : ids<Rank>(topology.num_ranks())) {
    if (topology.is_alive(rank)) ranks.push_back(rank);
  }
  std::ranges::stable_sort(ranks, {},
                           [&](Rank rank) { return pressure(rank_loads[rank.index()], rank, topology); });
  return ranks;
}

/// Up to which load / speed the emptiest ranks are filled, in fractions of a token.
double find_level(std::span<const std::int64_t> rank_loads, std::int64_t num_tokens,
                  const Topology& topology) {
  const std::vector<Rank> ranks = by_pressure(rank_loads, topology);
  auto load = static_cast<double>(num_tokens);
  double speed = 0.0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    load += static_cast<double>(rank_loads[ranks[i].index()]);
    speed += topology.rank(ranks[i]).speed;
    if (i + 1 == ranks.size() ||
        load / speed <= pressure(rank_loads[ranks[i + 1].index()], ranks[i + 1], topology))
      break;
  }
  return load / speed;
}

/// Tokens of each rank, by Rank.
std::vector<std::int64_t> fill(std::span<const std::int64_t> rank_loads, std::int64_t num_tokens,
                               const Topology& topology) {
  std::vector<std::int64_t> tokens(rank_loads.size(), 0);
  // Less than one token for each rank stays after rounding down; those are given singly.
  const double level = find_level(rank_loads, num_tokens, topology) * (1.0 - 1e-14);
  using Next = std::pair<double, Rank>;
  std::priority_queue<Next, std::vector<Next>, std::greater<>> next;
  for (Rank rank : ids<Rank>(topology.num_ranks())) {
    if (!topology.is_alive(rank)) continue;
    const auto room = static_cast<std::int64_t>(level * topology.rank(rank).speed) - rank_loads[rank.index()];
    tokens[rank.index()] = std::clamp<std::int64_t>(room, 0, num_tokens);
    num_tokens -= tokens[rank.index()];
    next.emplace(pressure(rank_loads[rank.index()] + tokens[rank.index()] + 1, rank, topology), rank);
  }
  for (; num_tokens > 0; --num_tokens) {
    const Rank rank = next.top().second;
    next.pop();
    ++tokens[rank.index()];
    next.emplace(pressure(rank_loads[rank.index()] + tokens[rank.index()] + 1, rank, topology), rank);
  }
  return tokens;
}

/// Chooses ranks for the tokens of one batch.
class TokenFiller {
 public:
  TokenFiller(std::span<const std::int64_t> rank_loads, const TokenRanks& tokens, const Topology& topology)
      : rank_loads_(rank_loads), tokens_(tokens), topology_(topology) {}

  TokenFill run() {
    TokenFill result;
    if (may_go_anywhere()) {
      result.ranks = fill_anywhere();
    } else {
      result.ranks = fill_nearby();
    }
    std::vector<std::int64_t> loads(rank_loads_.begin(), rank_loads_.end());
    for (std::size_t t = 0; t < result.ranks.size(); ++t) {
      ++loads[result.ranks[t].index()];
      if (!is_candidate(t, result.ranks[t])) ++result.num_extra;
    }
    result.max_pressure = max_pressure(loads);
    return result;
  }

 private:
  [[nodiscard]] std::span<const Rank> visited(std::size_t token) const {
    const auto k = static_cast<std::size_t>(tokens_.k);
    return tokens_.visited.subspan(token * k, k);
  }
  [[nodiscard]] bool is_live(Rank rank) const { return rank != Rank{-1} && topology_.is_alive(rank); }
  [[nodiscard]] bool is_candidate(std::size_t token, Rank rank) const {
    return tokens_.home[token] == rank || std::ranges::find(visited(token), rank) != visited(token).end();
  }

  [[nodiscard]] bool may_go_anywhere() const {
    double most = 0.0;
    auto sum = static_cast<double>(tokens_.home.size());
    for (Rank rank : ids<Rank>(topology_.num_ranks())) {
      if (!topology_.is_alive(rank)) continue;
      sum += static_cast<double>(rank_loads_[rank.index()]);
      most = std::max(most, pressure(rank_loads_[rank.index()], rank, topology_));
    }
    return most < sum / topology_.total_speed();
  }

  /// Every rank gets what water-filling says: tokens at home first, then those that visit it, then any.
  [[nodiscard]] std::vector<Rank> fill_anywhere() const {
    const auto count = tokens_.home.size();
    std::vector<std::int64_t> left = fill(rank_loads_, static_cast<std::int64_t>(count), topology_);
    std::vector<Rank> ranks(count, Rank{-1});
    const auto take = [&](std::size_t token, Rank rank) {
      if (ranks[token] != Rank{-1} || !is_live(rank) || left[rank.index()] == 0) return;
      ranks[token] = rank;
      --left[rank.index()];
    };
    for (std::size_t t = 0; t < count; ++t) take(t, tokens_.home[t]);
    for (std::size_t t = 0; t < count; ++t) {
      for (Rank rank : visited(t)) take(t, rank);
    }
    Rank next{0};
    for (std::size_t t = 0; t < count; ++t) {
      if (ranks[t] != Rank{-1}) continue;
      while (left[next.index()] == 0) next = next.next();
      take(t, next);
    }
    return ranks;
  }

  /// Home first, then the live ranks it visits, each once.
  [[nodiscard]] Grouped<SharedId, Rank> candidates() const {
    Grouped<SharedId, Rank> lists{{0}, {}};
    for (std::size_t t = 0; t < tokens_.home.size(); ++t) {
      const auto begin = static_cast<std::ptrdiff_t>(lists.items.size());
      lists.items.push_back(tokens_.home[t]);
      for (Rank rank : visited(t)) {
        const auto first = lists.items.begin() + begin;
        if (is_live(rank) && std::find(first, lists.items.end(), rank) == lists.items.end()) {
          lists.items.push_back(rank);
        }
      }
      lists.first.push_back(static_cast<std::int32_t>(lists.items.size()));
    }
    return lists;
  }

  [[nodiscard]] double max_pressure(std::span<const std::int64_t> loads) const {
    double most = 0.0;
    for (Rank rank : ids<Rank>(loads.size())) {
      if (topology_.is_alive(rank)) most = std::max(most, pressure(loads[rank.index()], rank, topology_));
    }
    return most;
  }

  /// One token after another: at home while that stays within the fullest routed load, else where it is
  /// emptiest.
  std::vector<Rank> fill_greedily(std::vector<std::int64_t>& loads) const {
    const double most = max_pressure(rank_loads_);
    const auto next = [&](Rank rank) { return pressure(loads[rank.index()] + 1, rank, topology_); };
    std::vector<Rank> ranks;
    for (std::size_t t = 0; t < tokens_.home.size(); ++t) {
      Rank best = tokens_.home[t];
      if (next(best) > most) {
        for (Rank rank : visited(t)) {
          if (is_live(rank) && next(rank) < next(best)) best = rank;
        }
      }
      ++loads[best.index()];
      ranks.push_back(best);
    }
    return ranks;
  }

  /// As good as the routed loads allow at the first attempt, or improved along chains: each token is a load
  /// of one that its candidates share, and the exact split of such loads is what is wanted.
  [[nodiscard]] std::vector<Rank> fill_nearby() const {
    std::vector<std::int64_t> loads(rank_loads_.begin(), rank_loads_.end());
    std::vector<Rank> ranks = fill_greedily(loads);
    if (max_pressure(loads) <= max_pressure(rank_loads_)) return ranks;
    const ShareNetwork network = make_choice_network(candidates(), topology_);
    ShareFlow<std::int64_t> flow;
    flow.resize(network);
    flow.load = std::move(loads);
    for (EdgeId edge : ids<EdgeId>(network.num_edges())) {
      const std::size_t token = network.shared_of[edge.index()].index();
      flow.on_edge[edge.index()] = network.rank_of[edge.index()] == ranks[token] ? 1 : 0;
    }
    Leveller(network).level(flow, rank_loads_, SplitDepth::fullest);
    for (EdgeId edge : ids<EdgeId>(network.num_edges())) {
      if (flow.on_edge[edge.index()] == 1) {
        ranks[network.shared_of[edge.index()].index()] = network.rank_of[edge.index()];
      }
    }
    return ranks;
  }

  std::span<const std::int64_t> rank_loads_;
  const TokenRanks& tokens_;
  const Topology& topology_;
};

}  // namespace

Result<std::vector<std::int64_t>> fill_ranks(std::span<const std::int64_t> rank_loads,
                                             std::int64_t num_tokens, const Topology& topology) {
  if (Status checked = check_rank_loads(rank_loads, num_tokens, topology); !checked) {
    return failure(std::move(checked));
  }
  return fill(rank_loads, num_tokens, topology);
}

Result<TokenFill> fill_by_token(std::span<const std::int64_t> rank_loads, const TokenRanks& tokens,
                                const Topology& topology) {
  const auto num_tokens = static_cast<std::int64_t>(tokens.home.size());
  if (Status checked = check_rank_loads(rank_loads, num_tokens, topology); !checked) {
    return failure(std::move(checked));
  }
  if (Status checked = check_tokens(tokens, topology); !checked) return failure(std::move(checked));
  return TokenFiller(rank_loads, tokens, topology).run();
}

}  // namespace trimtab
