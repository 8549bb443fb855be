// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/topology.hpp>

#include <CLI/CLI.hpp>

#include <cstdint>
#include <optional>

namespace trimtab {

/// `--ranks`, `--nodes`, `--slots` and `--slots-per-rank`, as every verb that knows a cluster takes them.
struct ClusterOptions {
  std::optional<std::int32_t> ranks;
  std::int32_t nodes = 1;
  std::optional<std::int32_t> slots;
  std::optional<std::int32_t> slots_per_rank;

  void add_to(CLI::App& verb);

  /// Slots per layer over all ranks, if an option tells. Usage error when the options contradict each other.
  [[nodiscard]] std::optional<std::int32_t> num_slots() const;

  /// Equal ranks with `num_slots` in total. Usage error when `--ranks` is missing or `--nodes` exceeds it.
  [[nodiscard]] Topology make_topology(std::int32_t num_slots) const;
};

}  // namespace trimtab
