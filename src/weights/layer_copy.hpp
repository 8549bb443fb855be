// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "workspaces.hpp"

#include <trimtab/weights/tensor_spec.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace trimtab {

/// The ND copy, in workspaces, of those tensors of one layer whose slots are not addressable: converted slot
/// by slot, tensor after tensor, as far as it is asked for. A whole storage is read for all slots by the
/// first that comes to it.
///
/// Slots are counted from the first of this rank. Not thread-safe, but `rows` of a converted slot may be used
/// while another is converted. Borrows everything.
class LayerCopy {
 public:
  LayerCopy(const Workspaces& workspaces, std::size_t num_slots)
      : workspaces_(workspaces), progress_(num_slots), is_changed_(num_slots) {}

  /// Starts anew, with nothing converted. `pieces`: of the workspaces, by tensor.
  void begin(std::span<const TensorSpec> tensors, std::span<const std::size_t> pieces) noexcept;

  /// Converts what `slot` lacks, but at most `max_bytes`, or else one row or one whole storage.
  /// @return whether the slot lacks nothing now.
  bool convert(std::size_t slot, std::size_t max_bytes) noexcept;
  [[nodiscard]] bool is_converted(std::size_t slot) const noexcept {
    return progress_[slot].tensor == tensors_.size();
  }

  /// Precondition: `tensor` has a copy; of const use: `slot` is converted.
  [[nodiscard]] std::span<std::byte> rows(std::size_t tensor, std::size_t slot) const noexcept;

  /// `slot` is to be written back. Precondition: it is converted.
  void mark_changed(std::size_t slot) noexcept { is_changed_[slot] = true; }
  /// Writes back slots that changed, and storages whole if any did.
  void write_back() noexcept;

  /// Payload so far, there and back, whole storages included.
  [[nodiscard]] std::uint64_t bytes_converted() const noexcept { return bytes_converted_; }

 private:
  /// What comes next.
  struct Progress {
    std::size_t tensor = 0;
    std::size_t row = 0;
  };

  [[nodiscard]] bool has_copy(std::size_t tensor) const noexcept {
    return pieces_[tensor] != Workspaces::none;
  }
  /// Whether slots of `tensor` lack nothing: it needs no copy, or was read whole.
  [[nodiscard]] bool is_there(std::size_t tensor) const noexcept {
    return !has_copy(tensor) || (tensors_[tensor].storage != nullptr && tensor < num_whole_);
  }
  void skip_what_is_there(Progress& next) const noexcept;
  std::size_t convert_part(std::size_t slot, std::size_t room, bool is_first) noexcept;
  std::size_t read_whole(std::size_t tensor) noexcept;
  std::size_t write_tensor(std::size_t tensor) noexcept;

  const Workspaces& workspaces_;
  std::span<const TensorSpec> tensors_;
  std::span<const std::size_t> pieces_;
  std::vector<Progress> progress_;  ///< By slot.
  std::vector<bool> is_changed_;    ///< By slot.
  std::size_t num_whole_ = 0;       ///< Of the first so many tensors, whole storages have been read.
  std::uint64_t bytes_converted_ = 0;
};

}  // namespace trimtab
