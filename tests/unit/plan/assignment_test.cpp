// SPDX-License-Identifier: Apache-2.0
#include "plan/assignment.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#ifdef TRIMTAB_TEST_WITH_LEMON
#if defined(__GNUC__) && !defined(__clang__)
// With sanitizers g++ 12 suspects LEMON's vectors.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <lemon/network_simplex.h>
#include <lemon/smart_graph.h>
#endif

namespace trimtab::test {
namespace {

using Matrix = std::vector<std::vector<std::int64_t>>;

Matrix random_matrix(std::size_t size, std::int64_t limit, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Matrix matrix(size, std::vector<std::int64_t>(size));
  for (auto& row : matrix) {
    for (auto& value : row) value = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(limit));
  }
  return matrix;
}

std::vector<std::size_t> assign(const Matrix& matrix) {
  return assign_best(matrix.size(), [&](std::size_t row, std::span<std::int64_t> values) {
    std::copy(matrix[row].begin(), matrix[row].end(), values.begin());
  });
}

std::int64_t total_of(const Matrix& matrix, const std::vector<std::size_t>& column_of) {
  std::int64_t total = 0;
  for (std::size_t row = 0; row < matrix.size(); ++row) total += matrix[row][column_of[row]];
  return total;
}

bool is_one_to_one(std::vector<std::size_t> columns) {
  std::sort(columns.begin(), columns.end());
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (columns[i] != i) return false;
  }
  return true;
}

std::int64_t best_of_all(const Matrix& matrix) {
  std::vector<std::size_t> columns(matrix.size());
  std::iota(columns.begin(), columns.end(), std::size_t{0});
  std::int64_t best = total_of(matrix, columns);
  while (std::next_permutation(columns.begin(), columns.end())) {
    best = std::max(best, total_of(matrix, columns));
  }
  return best;
}

TEST(AssignBest, FindsTheBestOfAllPermutations) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Matrix matrix = random_matrix(1 + seed % 6, 1 + static_cast<std::int64_t>(seed % 7) * 3, seed);
    const auto column_of = assign(matrix);
    ASSERT_TRUE(is_one_to_one(column_of));
    ASSERT_EQ(total_of(matrix, column_of), best_of_all(matrix)) << seed;
  }
}

TEST(AssignBest, TakesNegativeValues) {
  const Matrix matrix{{-5, -1}, {-1, -(std::int64_t{1} << 39)}};
  EXPECT_EQ(assign(matrix), (std::vector<std::size_t>{1, 0}));
}

TEST(AssignBest, KeepsTheOrderWhereAllAreEqual) {
  EXPECT_EQ(assign(random_matrix(4, 1, 1)), (std::vector<std::size_t>{0, 1, 2, 3}));
}

TEST(AssignBest, AcceptsNothing) { EXPECT_TRUE(assign({}).empty()); }

#ifdef TRIMTAB_TEST_WITH_LEMON
// An independent solver for sizes that no enumeration reaches.
std::int64_t best_by_network_simplex(const Matrix& matrix) {
  lemon::SmartDigraph graph;
  std::vector<lemon::SmartDigraph::Node> rows;
  std::vector<lemon::SmartDigraph::Node> columns;
  for (std::size_t i = 0; i < matrix.size(); ++i) rows.push_back(graph.addNode());
  for (std::size_t i = 0; i < matrix.size(); ++i) columns.push_back(graph.addNode());
  lemon::SmartDigraph::ArcMap<std::int64_t> cost(graph);
  lemon::SmartDigraph::ArcMap<std::int64_t> capacity(graph);
  lemon::SmartDigraph::NodeMap<std::int64_t> supply(graph);
  for (std::size_t r = 0; r < matrix.size(); ++r) {
    supply[rows[r]] = 1;
    supply[columns[r]] = -1;
    for (std::size_t c = 0; c < matrix.size(); ++c) {
      const auto arc = graph.addArc(rows[r], columns[c]);
      cost[arc] = -matrix[r][c];
      capacity[arc] = 1;
    }
  }
  lemon::NetworkSimplex<lemon::SmartDigraph, std::int64_t, std::int64_t> solver(graph);
  solver.costMap(cost).upperMap(capacity).supplyMap(supply);
  EXPECT_EQ(solver.run(), (lemon::NetworkSimplex<lemon::SmartDigraph, std::int64_t, std::int64_t>::OPTIMAL));
  return -solver.totalCost();
}

TEST(AssignBest, AgreesWithNetworkSimplex) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const Matrix matrix = random_matrix(20 + seed * 10, seed % 3 == 0 ? 3 : 100'000, seed);
    const auto column_of = assign(matrix);
    ASSERT_TRUE(is_one_to_one(column_of));
    ASSERT_EQ(total_of(matrix, column_of), best_by_network_simplex(matrix)) << seed;
  }
}
#endif

}  // namespace
}  // namespace trimtab::test
