// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "app/cluster_options.hpp"
#include "app/commands.hpp"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trimtab {

/// What `inspect` is asked of traces, besides what it is asked of loads.
struct TraceArguments {
  std::string phase;
  std::optional<std::uint64_t> window;
  std::string write_loads;
  bool with_plans = false;

  void add_to(CLI::App& verb);
  /// Usage error when one of the options was given, for a file that is no trace.
  void refuse() const;
};

/// Everything that `inspect` may be given.
struct InspectArguments {
  std::vector<std::string> inputs;
  std::string placement;
  ClusterOptions cluster;
  std::optional<std::size_t> top;
  TraceArguments traces;
  std::string json;
};

/// Counts traces, shows each and how they differ, and writes what was counted as loads.
[[nodiscard]] Outcome inspect_traces(const InspectArguments& args);

}  // namespace trimtab
