// SPDX-License-Identifier: Apache-2.0
#include "moe/replay/captured_bundle.hpp"

#include <span>
#include <vector>

namespace trimtab::moe {
namespace {

std::span<const std::int8_t> rows_of(const CapturedMatrix& matrix, std::span<std::int8_t> scratch) noexcept {
  if (!matrix.is_nz) return {reinterpret_cast<const std::int8_t*>(matrix.at), scratch.size()};
  nz_to_nd(matrix.shape, {matrix.at, nz_bytes(matrix.shape)}, std::as_writable_bytes(scratch));
  return scratch;
}

CapturedMatrix matrix_of(const TensorSpec& tensor, const std::byte* at) noexcept {
  return {at, {tensor.layout.rows, row_bytes(tensor)}, tensor.layout.format == Format::fractal_nz};
}

}  // namespace

ConstBundle CapturedBundle::read(ExpertBuffer& scratch) const noexcept {
  const Bundle room = scratch.bundle();
  return {rows_of(w13, room.w13), {w13_scale, room.w13_scale.size()}, {w13_offset, room.w13_offset.size()},
          rows_of(w2, room.w2),   {w2_scale, room.w2_scale.size()},   {w2_offset, room.w2_offset.size()}};
}

CapturedBundle capture_bundle(const ExpertMemory& memory, LayerId layer, SlotId slot) {
  const std::vector<TensorSpec> tensors = memory.tensors(layer);
  const std::size_t local = slot.index() - memory.slots().first().index();
  const auto at = [&](std::size_t tensor) -> const std::byte* {
    return tensors[tensor].base + local * tensors[tensor].stride_bytes;
  };
  return {.w13 = matrix_of(tensors[0], at(0)),
          .w2 = matrix_of(tensors[3], at(3)),
          .w13_scale = reinterpret_cast<const float*>(at(1)),
          .w13_offset = reinterpret_cast<const std::int32_t*>(at(2)),
          .w2_scale = reinterpret_cast<const float*>(at(4)),
          .w2_offset = reinterpret_cast<const std::int32_t*>(at(5))};
}

}  // namespace trimtab::moe
