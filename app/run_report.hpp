// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "moe/service.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace trimtab {

/// The document trimtab.run/1.
[[nodiscard]] nlohmann::ordered_json run_document(const moe::ServiceOptions& service,
                                                  const moe::ServiceReport& report,
                                                  std::string_view transport);

/// The summary for a person.
[[nodiscard]] std::string run_text(const moe::ServiceOptions& service, const moe::ServiceReport& report,
                                   std::string_view transport);

}  // namespace trimtab
