// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/result.hpp>

#include "app/run_options.hpp"
#include "moe/service.hpp"

#include <memory>

namespace trimtab {

/// Reads the model of `--model` and the texts of `--text`, else those that lie beside the model. How long the
/// run is is left open.
/// @return errors naming file, value and limit.
[[nodiscard]] Result<std::shared_ptr<moe::TextService>> read_text_service(const RunOptions& options);

}  // namespace trimtab
