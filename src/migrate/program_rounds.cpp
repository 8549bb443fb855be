// SPDX-License-Identifier: Apache-2.0
#include "migrate/program_rounds.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace trimtab {
namespace {

/// Edges of a bipartite multigraph, sender to receiver, coloured one after another; an edge that finds no
/// common free colour makes room by swapping two colours along an alternating path.
class EdgeColouring {
 public:
  struct Edge {
    std::size_t ends[2];  ///< Sender; receiver, behind the senders.
    std::size_t colour = 0;
  };

  EdgeColouring(std::size_t num_vertices, std::vector<Edge> edges)
      : edges_(std::move(edges)), degree_(max_degree(num_vertices)) {
    at_.assign(num_vertices * degree_, none);
    first_free_.assign(num_vertices, 0);
    for (std::size_t e = 0; e < edges_.size(); ++e) colour(e);
  }

  [[nodiscard]] std::size_t num_colours() const noexcept { return degree_; }
  [[nodiscard]] std::size_t colour_of(std::size_t edge) const noexcept { return edges_[edge].colour; }

 private:
  static constexpr std::size_t none = ~std::size_t{0};

  [[nodiscard]] std::size_t max_degree(std::size_t num_vertices) const {
    std::vector<std::size_t> degrees(num_vertices, 0);
    std::size_t most = 0;
    for (const Edge& edge : edges_) {
      for (std::size_t end : edge.ends) most = std::max(most, ++degrees[end]);
    }
    return most;
  }

  [[nodiscard]] std::size_t& at(std::size_t vertex, std::size_t colour) {
    return at_[vertex * degree_ + colour];
  }

  [[nodiscard]] std::size_t free_colour(std::size_t vertex) {
    std::size_t& colour = first_free_[vertex];
    while (at(vertex, colour) != none) ++colour;
    return colour;
  }

  void colour(std::size_t edge) {
    const std::size_t wanted = free_colour(edges_[edge].ends[0]);
    const std::size_t receiver = edges_[edge].ends[1];
    if (at(receiver, wanted) != none) swap_path(receiver, wanted, free_colour(receiver));
    set(edge, wanted);
  }

  /// The path from `receiver` that alternates between the two colours; it never comes to the sender, where
  /// `wanted` is free.
  void swap_path(std::size_t receiver, std::size_t wanted, std::size_t other) {
    path_.clear();
    std::size_t vertex = receiver;
    for (std::size_t colour = wanted; at(vertex, colour) != none; colour = wanted + other - colour) {
      const Edge& edge = edges_[path_.emplace_back(at(vertex, colour))];
      vertex = edge.ends[0] == vertex ? edge.ends[1] : edge.ends[0];
    }
    for (std::size_t edge : path_) clear(edge);
    for (std::size_t edge : path_) set(edge, wanted + other - edges_[edge].colour);
  }

  void clear(std::size_t edge) {
    const Edge& cleared = edges_[edge];
    for (std::size_t end : cleared.ends) {
      at(end, cleared.colour) = none;
      first_free_[end] = std::min(first_free_[end], cleared.colour);
    }
  }

  void set(std::size_t edge, std::size_t colour) {
    edges_[edge].colour = colour;
    for (std::size_t end : edges_[edge].ends) at(end, colour) = edge;
  }

  std::vector<Edge> edges_;
  std::size_t degree_;
  std::vector<std::size_t> at_;          ///< [vertex][colour], the edge.
  std::vector<std::size_t> first_free_;  ///< By vertex: every colour below is taken.
  std::vector<std::size_t> path_;
};

std::int32_t assign_kind(Step& step, MoveKind kind, std::int32_t first_round, const Topology& topology) {
  const auto num_ranks = static_cast<std::size_t>(topology.num_ranks());
  std::vector<Move*> moves;
  std::vector<EdgeColouring::Edge> edges;
  for (Move& move : step.moves) {
    if (move.kind != kind) continue;
    moves.push_back(&move);
    edges.push_back(
        {{topology.rank_of(move.source).index(), num_ranks + topology.rank_of(move.destination).index()}});
  }
  if (moves.empty()) return first_round;
  const EdgeColouring colouring(2 * num_ranks, std::move(edges));
  for (std::size_t i = 0; i < moves.size(); ++i)
    moves[i]->round = first_round + static_cast<std::int32_t>(colouring.colour_of(i));
  return first_round + static_cast<std::int32_t>(colouring.num_colours());
}

}  // namespace

void assign_rounds(Step& step, const Topology& topology) {
  const std::int32_t num_transfers = assign_kind(step, MoveKind::transfer, 0, topology);
  step.num_rounds = assign_kind(step, MoveKind::relay, num_transfers, topology);
}

}  // namespace trimtab
