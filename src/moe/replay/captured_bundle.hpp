// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/weights/fractal_nz.hpp>

#include <cstddef>
#include <cstdint>

#include "moe/expert_buffer.hpp"
#include "moe/expert_memory.hpp"
#include "moe/weights.hpp"

namespace trimtab::moe {

/// A matrix of one slot at its address.
struct CapturedMatrix {
  const std::byte* at;
  NzShape shape;
  bool is_nz;
};

/// Where the tensors of one slot lay when a forward was recorded. It owns nothing and is told of nothing: who
/// puts weights elsewhere leaves it reading what lies here.
struct CapturedBundle {
  CapturedMatrix w13;
  CapturedMatrix w2;
  const float* w13_scale;
  const std::int32_t* w13_offset;
  const float* w2_scale;
  const std::int32_t* w2_offset;

  /// Rows without gaps, as a kernel takes them; from NZ they are converted into `scratch`. Valid until either
  /// is written again.
  [[nodiscard]] ConstBundle read(ExpertBuffer& scratch) const noexcept;
};

/// `slot` is one of `memory.slots()`.
[[nodiscard]] CapturedBundle capture_bundle(const ExpertMemory& memory, LayerId layer, SlotId slot);

}  // namespace trimtab::moe
