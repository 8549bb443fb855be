// SPDX-License-Identifier: Apache-2.0
#include "layer_copy.hpp"

#include "nd_copy.hpp"

#include <algorithm>

namespace trimtab {
namespace {

/// How many of the `left` rows of a matrix fit into `room` bytes: whole blocks while one fits.
std::size_t rows_that_fit(const TensorSpec& tensor, std::size_t left, std::size_t room) noexcept {
  const std::size_t fit = std::min(left, room / row_bytes(tensor));
  return fit == left || fit < nz_block_rows ? fit : fit / nz_block_rows * nz_block_rows;
}

}  // namespace

void LayerCopy::begin(std::span<const TensorSpec> tensors, std::span<const std::size_t> pieces) noexcept {
  tensors_ = tensors;
  pieces_ = pieces;
  num_whole_ = 0;
  std::ranges::fill(progress_, Progress{});
  std::fill(is_changed_.begin(), is_changed_.end(), false);
}

bool LayerCopy::convert(std::size_t slot, std::size_t max_bytes) noexcept {
  std::size_t done = 0;
  skip_what_is_there(progress_[slot]);
  while (!is_converted(slot)) {
    const std::size_t size = convert_part(slot, max_bytes - std::min(done, max_bytes), done == 0);
    if (size == 0) break;
    done += size;
    skip_what_is_there(progress_[slot]);
  }
  bytes_converted_ += done;
  return is_converted(slot);
}

void LayerCopy::skip_what_is_there(Progress& next) const noexcept {
  while (next.tensor < tensors_.size() && is_there(next.tensor)) ++next.tensor;
}

/// What fits into `room`; what comes first is done even if it does not.
std::size_t LayerCopy::convert_part(std::size_t slot, std::size_t room, bool is_first) noexcept {
  Progress& next = progress_[slot];
  const TensorSpec& tensor = tensors_[next.tensor];
  if (tensor.storage != nullptr) return is_first ? read_whole(next.tensor) : 0;
  const std::size_t left = tensor.layout.rows - next.row;
  const std::size_t count = std::max(rows_that_fit(tensor, left, room), std::size_t{is_first});
  read_rows(tensor, slot, {next.row, count}, rows(next.tensor, slot));
  next.row += count;
  if (count == left) next = {next.tensor + 1, 0};
  return count * row_bytes(tensor);
}

/// Slots go through the tensors in one order, so all whole storages before this one have been read.
std::size_t LayerCopy::read_whole(std::size_t tensor) noexcept {
  const std::span<std::byte> copy = workspaces_[pieces_[tensor]];
  tensors_[tensor].storage->read(copy);
  num_whole_ = tensor + 1;
  return copy.size();
}

std::span<std::byte> LayerCopy::rows(std::size_t tensor, std::size_t slot) const noexcept {
  const std::size_t size = tensors_[tensor].slot_bytes;
  return workspaces_[pieces_[tensor]].subspan(slot * size, size);
}

void LayerCopy::write_back() noexcept {
  if (std::ranges::find(is_changed_, true) == is_changed_.end()) return;
  for (std::size_t tensor = 0; tensor < tensors_.size(); ++tensor) {
    if (has_copy(tensor)) bytes_converted_ += write_tensor(tensor);
  }
}

std::size_t LayerCopy::write_tensor(std::size_t tensor) noexcept {
  const TensorSpec& spec = tensors_[tensor];
  if (spec.storage != nullptr) {
    const std::span<const std::byte> copy = workspaces_[pieces_[tensor]];
    spec.storage->write(copy);
    return copy.size();
  }
  std::size_t size = 0;
  for (std::size_t slot = 0; slot < is_changed_.size(); ++slot) {
    if (!is_changed_[slot]) continue;
    write_slot(spec, slot, rows(tensor, slot));
    size += spec.slot_bytes;
  }
  return size;
}

}  // namespace trimtab
