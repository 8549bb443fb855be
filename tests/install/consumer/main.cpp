// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/imbalance.hpp>
#include <trimtab/core/load_matrix.hpp>
#include <trimtab/core/placement.hpp>
#include <trimtab/core/topology.hpp>

#include <cstdio>

int main() {
  using namespace trimtab;
  const auto loads = LoadMatrix::make(1, 4, {6, 2, 1, 3});
  const auto topology = Topology::make_uniform(2, 1, 4);
  const auto placement = Placement::identity(1, 4, 4);
  if (!loads || !topology || !placement) return 1;

  const LayerId layer{0};
  const auto rank_loads = compute_rank_loads(loads->layer(layer), placement->layer(layer), *topology);
  const Imbalance imbalance = compute_imbalance(rank_loads, *topology);
  std::printf("imbalance %.4f, balancedness %.4f\n", imbalance.max_over_mean(), imbalance.balancedness());
}
