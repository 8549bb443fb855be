// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/migrate/engine.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace trimtab::test {

/// "ROLE BEFORE EVENT AFTER", as in specs/transitions.txt.
using Rows = std::set<std::string>;

/// The list, by what is said to make its rows: "code", "views", "model".
inline std::map<std::string, Rows> read_transitions() {
  std::ifstream file(TRIMTAB_TRANSITIONS);
  std::map<std::string, Rows> listed;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string role, before, event, after, where;
    if (!(words >> role >> before >> event >> after >> where) || role == "#") continue;
    listed[where].insert(fmt::format("{} {} {} {}", role, before, event, after));
  }
  return listed;
}

/// How `row` may be listed: as it is, or for any state before.
inline Rows spellings(const std::string& row) {
  std::istringstream words(row);
  std::string role, before, event, after;
  words >> role >> before >> event >> after;
  return {row, fmt::format("{} any {} {}", role, event, after),
          fmt::format("{} {} {} any", role, before, event), fmt::format("{} any {} any", role, event)};
}

inline bool contains_any(const Rows& rows, const Rows& wanted) {
  return std::ranges::any_of(wanted, [&](const std::string& row) { return rows.contains(row); });
}

/// What one member's engine does.
class TransitionLog final : public EngineObserver {
 public:
  void on_commit(const Step&, Epoch) override {}
  void on_view(const View&) override { rows.emplace_back("member any new_view any"); }
  void on_transition(StepState before, StepEvent event, StepState after) override {
    rows.push_back(fmt::format("member {} {} {}", to_string(before), to_string(event), to_string(after)));
  }
  std::vector<std::string> rows;
};

}  // namespace trimtab::test
