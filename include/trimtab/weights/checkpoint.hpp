// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/placement.hpp>
#include <trimtab/core/result.hpp>
#include <trimtab/weights/expert_source.hpp>
#include <trimtab/weights/expert_store.hpp>

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace trimtab {

/// How the tensors of an expert are named in a checkpoint (docs/formats/checkpoint.md).
struct CheckpointNames {
  /// {layer} and {expert} are decimal numbers, in either order; {tensor}, the last of the three, is a name.
  std::string pattern = "model.layers.{layer}.mlp.experts.{expert}.{tensor}";
  /// Tensors of the store that are made of several of the checkpoint, rows one below the other: "w13" of
  /// "gate_proj.weight" and "up_proj.weight". A tensor that is not listed has its own name.
  std::map<std::string, std::vector<std::string>, std::less<>> parts;
};

/// A checkpoint on disk: bundles are read from safetensors files, verified by the checksums that
/// `write_checkpoint_shard` left in them. Files that others wrote have none: of their bundles names, types
/// and sizes are compared, nothing else, and `is_verified` is false. Reads by `pread`, not through the
/// mapping, so a file that is cut off is an error.
class CheckpointSource final : public ExpertSource {
 public:
  /// Opens `path`: a safetensors file; an index of several (.json); or a folder with an index, else all its
  /// safetensors files. Holds the experts of all layers that `store` has registered; other tensors are passed
  /// over. The store is not kept.
  /// @return `not_found`, `io`; `invalid_argument`, naming file, tensor and both sides, for files that are
  ///         not sound, a tensor in two files or not in the one that the index says, an expert that lacks
  ///         tensors, types or sizes other than the store's, checksums of another order of tensors, a pattern
  ///         that is none, or no expert at all.
  static Result<std::unique_ptr<CheckpointSource>> open(const std::string& path, const ExpertStore& store,
                                                        const CheckpointNames& names = {});
  ~CheckpointSource() override;

  [[nodiscard]] std::size_t num_bundles() const noexcept;
  [[nodiscard]] bool holds(LayerId layer, ExpertId expert) const override;
  [[nodiscard]] bool is_verified(LayerId layer, ExpertId expert) const override;
  [[nodiscard]] std::string describe() const override;

 private:
  struct Catalogue;
  explicit CheckpointSource(std::unique_ptr<Catalogue> catalogue) noexcept;
  Status read_bundle(LayerId layer, ExpertId expert, std::span<std::byte> bundle) override;

  std::unique_ptr<Catalogue> catalogue_;
};

/// One slot whose bundle is to be written, and what it holds.
struct StoredExpert {
  LayerId layer;
  ExpertId expert;
  SlotId slot;
};

/// The bundles that a rank with `slots` writes so that all ranks together write each expert once: those whose
/// first replica is its own, by layer and slot.
[[nodiscard]] std::vector<StoredExpert> checkpoint_share(const Placement& placement, IdRange<SlotId> slots);

/// Writes the bundles of `experts` out of `store` as one file, whole or not at all, with their checksums.
/// No other call may write to the store meanwhile.
/// @return `invalid_argument` for an expert twice, a layer without bundle, a slot that is not the store's,
///         names with `parts`, or a pattern that is none; `unavailable` when the store's workspaces are in
///         use; `io`.
Status write_checkpoint_shard(const std::string& path, ExpertStore& store,
                              std::span<const StoredExpert> experts, const CheckpointNames& names = {});

/// Name of a rank's shard, as other tools name them: "model-00001-of-00004.safetensors" for rank 0 of 4.
[[nodiscard]] std::string shard_name(Rank rank, std::int32_t num_ranks);

/// Writes `model.safetensors.index.json` for the shards of all ranks, which lie in `folder` already.
/// @return `invalid_argument` for a shard that is not sound or a tensor in two of them; `not_found`; `io`.
Status write_checkpoint_index(const std::string& folder, std::span<const std::string> shard_names);

}  // namespace trimtab
