// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/topology.hpp>

#include <CLI/CLI.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace trimtab {

/// `--ranks`, `--nodes`, `--slots` and `--slots-per-rank`, as every verb that knows a cluster takes them; and
/// for verbs that plan, what makes ranks differ: `--rank-slots`, `--rank-speeds` and `--avoid-ranks`.
struct ClusterOptions {
  std::optional<std::int32_t> ranks;
  std::int32_t nodes = 1;
  std::optional<std::int32_t> slots;
  std::optional<std::int32_t> slots_per_rank;

  std::vector<std::int32_t> rank_slots;   ///< By rank; empty: even.
  std::vector<double> rank_speeds;        ///< By rank; empty: all 1.
  std::vector<std::int32_t> avoid_ranks;  ///< Dead, or to be emptied.

  void add_to(CLI::App& verb);
  void add_rank_options_to(CLI::App& verb);

  /// Slots per layer over all ranks, if an option tells. Usage error when the options contradict each other.
  [[nodiscard]] std::optional<std::int32_t> num_slots() const;

  /// Ranks with `num_slots` in total, equal but for the rank options. Usage error when `--ranks` is missing,
  /// `--nodes` exceeds it, or a rank option does not fit the ranks.
  [[nodiscard]] Topology make_topology(std::int32_t num_slots) const;
};

}  // namespace trimtab
