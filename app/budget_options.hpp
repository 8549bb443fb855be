// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <optional>

namespace trimtab {

/// A budget of slots over all layers instead of slots per layer: `--total-slots`, or `--memory-budget` with
/// `--expert-bytes`.
struct BudgetOptions {
  std::optional<std::int64_t> total_slots;
  std::optional<std::uint64_t> memory_bytes;
  std::optional<std::uint64_t> expert_bytes;  ///< Of one expert in one layer; other options use it too.

  /// After the options for slots per layer, which these exclude.
  void add_to(CLI::App& verb);

  /// Slots over all layers and ranks, when that is what was given. Usage error when the options contradict.
  [[nodiscard]] std::optional<std::int64_t> slots() const;
};

}  // namespace trimtab
