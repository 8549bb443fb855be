// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "verify/campaign.hpp"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace trimtab {

/// What one call of `trimtab verify` came to.
struct VerifyResult {
  std::string_view transport;
  verify::CampaignOptions options;
  verify::CampaignReport campaign;
  std::vector<verify::MutantReport> mutants;  ///< Empty unless asked for.
  double seconds = 0.0;

  [[nodiscard]] std::size_t mutants_caught() const noexcept;
  /// No check failed on the sound engine, and some check did on every mutant.
  [[nodiscard]] bool is_sound() const noexcept;
};

/// The document trimtab.verify/1.
[[nodiscard]] nlohmann::ordered_json verify_document(const VerifyResult& result);

/// The summary for a person.
[[nodiscard]] std::string verify_text(const VerifyResult& result);

/// One line: what failed, where, and the command that replays it.
[[nodiscard]] std::string violation_text(const verify::Violation& violation, const VerifyResult& result);

}  // namespace trimtab
