// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "moe/config.hpp"

namespace trimtab::moe {

/// The model, computed the plain way: one process, scalar loops, no slots, no dispatch, no oneDNN. It shares
/// the weight generator with the executor and nothing else, and must give the same bits.
///
/// In place: `states` is [tokens][hidden], `bias` [layers][experts]. Holds one expert at a time, so memory
/// stays small; takes milliseconds per token. Threads: independent calls. Precondition: a config that
/// `check_config` accepts.
void run_reference(const ModelConfig& config, std::span<const float> bias, std::span<float> states);

}  // namespace trimtab::moe
