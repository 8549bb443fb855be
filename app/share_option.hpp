// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/plan/planner.hpp>

#include <CLI/CLI.hpp>

#include <map>
#include <string>

namespace trimtab {

/// `--split even|exact`: how tokens are shared by the replicas of an expert.
inline void add_share_option(CLI::App& verb, ShareMode& shares, const std::string& description) {
  static const std::map<std::string, ShareMode> modes{{"even", ShareMode::even}, {"exact", ShareMode::exact}};
  verb.add_option_function<std::string>(
          "--split", [&shares](const std::string& name) { shares = modes.at(name); }, description)
      ->check(CLI::IsMember(&modes))
      ->option_text("NAME");
}

}  // namespace trimtab
