// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/result.hpp>

#include "app/run_options.hpp"
#include "moe/service.hpp"

namespace trimtab {

/// Writes the rows that a run with a real model has recorded into the folder of `--record`, which is made if
/// need be: a trace DOMAIN.trace for each domain that was served, each whole or not at all.
/// @return `io` naming folder or file.
[[nodiscard]] Status write_recorded(const RunOptions& options, const moe::TextService& text,
                                    const moe::RecordedRows& rows);

}  // namespace trimtab
