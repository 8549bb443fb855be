// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/load_matrix.hpp>
#include <trimtab/core/placement.hpp>
#include <trimtab/core/result.hpp>
#include <trimtab/core/topology.hpp>
#include <trimtab/plan/delta.hpp>

#include <CLI/CLI.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace trimtab {

/// `plan --from PLACEMENT` and what goes with it.
struct DeltaArguments {
  std::string from;
  std::optional<std::int32_t> from_ranks;
  std::optional<std::int32_t> max_moves;
  std::optional<std::uint64_t> move_budget_bytes;
  std::optional<double> within;
  bool show_curve = false;

  /// After `--expert-bytes`, which the byte budget needs.
  void add_to(CLI::App& verb);
  [[nodiscard]] bool is_given() const noexcept { return !from.empty(); }
  /// Usage error where an option needs another one, or `json` names the file that is read.
  void check_usage(const std::string& json) const;

  /// @return the error of reading, naming the file; usage error where slots and ranks do not agree.
  [[nodiscard]] Result<Placement> read_current(const LoadMatrix& loads, const Topology& topology) const;
  [[nodiscard]] DeltaOptions options(const Placement& current,
                                     std::optional<std::uint64_t> expert_bytes) const;
};

}  // namespace trimtab
