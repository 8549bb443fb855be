// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "moe/text/model.hpp"
#include "moe/text/session.hpp"
#include "moe/text/traffic.hpp"

namespace trimtab::moe {

/// Answers a request the plain way: one process, byte after byte, scalar loops, no slots, no batches, no
/// oneDNN, no code of the runtime's but the reader of the model. Must give the same bytes, bits and logits.
///
/// Takes milliseconds per byte. Threads: independent calls.
[[nodiscard]] TextAnswer answer_by_reference(const TextModel& model, const TextTraffic& traffic,
                                             const TextRequest& request);

}  // namespace trimtab::moe
