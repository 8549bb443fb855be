// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "moe/service.hpp"

#include <nlohmann/json.hpp>

#include <string>

namespace trimtab {

/// What a run with a real model adds to its document and to its text.
[[nodiscard]] nlohmann::ordered_json text_document(const moe::ServiceOptions& service,
                                                   const moe::TextReport& report);
[[nodiscard]] std::string text_text(const moe::TextReport& report);

}  // namespace trimtab
