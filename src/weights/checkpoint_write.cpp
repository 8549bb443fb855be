// SPDX-License-Identifier: Apache-2.0
#include <trimtab/weights/checkpoint.hpp>
#include <trimtab/weights/safetensors_writer.hpp>

#include "checkpoint_files.hpp"
#include "checkpoint_metadata.hpp"
#include "expert_names.hpp"
#include "safetensors_header.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <tuple>
#include <utility>

namespace trimtab {
namespace {

tl::unexpected<Error> bad(std::string message) { return failure(Errc::invalid_argument, std::move(message)); }

std::string place_of(const StoredExpert& one) {
  return fmt::format("layer {}, expert {}, slot {}", one.layer.value(), one.expert.value(), one.slot.value());
}

auto order_of(const StoredExpert& one) { return std::tuple(one.layer, one.expert); }

Status check_experts(const ExpertStore& store, std::span<const StoredExpert> experts) {
  const IdRange<SlotId> slots = store.slots();
  for (const StoredExpert& one : experts) {
    if (store.tensors(one.layer).empty())
      return bad(fmt::format("{}: the layer has no bundle", place_of(one)));
    if (one.expert < ExpertId{0}) return bad(fmt::format("{}: no expert", place_of(one)));
    if (!slots.contains(one.slot)) {
      return bad(fmt::format("{}: the store's slots are {}..{}", place_of(one), slots.first().value(),
                             static_cast<std::size_t>(slots.first().value()) + slots.size() - 1));
    }
  }
  const auto twice = std::ranges::adjacent_find(experts, {}, order_of);  // They are sorted.
  if (twice == experts.end()) return {};
  return bad(fmt::format("{}: the expert is to be written twice", place_of(*twice)));
}

SafetensorsEntry entry_of(const TensorSpec& tensor, std::string name) {
  SafetensorsEntry entry{std::move(name), stored_type(tensor.type), {}};
  if (tensor.layout.rows > 1) entry.shape.push_back(tensor.layout.rows);
  entry.shape.push_back(row_bytes(tensor) / size_of(tensor.type));
  return entry;
}

/// Writes the bundles of one shard, layer after layer.
class ShardWriter {
 public:
  ShardWriter(ExpertStore& store, std::span<const StoredExpert> experts, const ExpertNames& names)
      : store_(store), experts_(experts), names_(names) {}

  Status write(const std::string& path) const {
    auto writer = SafetensorsWriter::create(path, entries(), metadata());
    if (!writer) return tl::unexpected<Error>(std::move(writer).error());
    for (auto rest = experts_; !rest.empty();) {
      const LayerId layer = rest.front().layer;
      const auto end = std::ranges::find_if(rest, [&](const auto& one) { return one.layer != layer; });
      const auto count = static_cast<std::size_t>(end - rest.begin());
      if (Status done = append_layer(*writer, layer, rest.first(count)); !done) return done;
      rest = rest.subspan(count);
    }
    return writer->commit();
  }

 private:
  std::vector<SafetensorsEntry> entries() const {
    std::vector<SafetensorsEntry> all;
    for (const StoredExpert& one : experts_) {
      for (const TensorSpec& tensor : store_.tensors(one.layer)) {
        all.push_back(entry_of(tensor, names_.name(one.layer, one.expert, tensor.name)));
      }
    }
    return all;
  }

  /// Checksums are known, and replaced, when their bytes have been written.
  SafetensorsMetadata metadata() const {
    SafetensorsMetadata all{{"format", "pt"}};
    for (const StoredExpert& one : experts_) {
      all.emplace(bundle_key(one.layer), bundle_text(store_.tensors(one.layer)));
      all.emplace(checksum_key(one.layer, one.expert), checksum_text(0));
    }
    return all;
  }

  Status append_layer(SafetensorsWriter& writer, LayerId layer, std::span<const StoredExpert> experts) const {
    store_.open_layer(layer);
    Status done;
    for (auto one = experts.begin(); done && one != experts.end(); ++one) done = append_bundle(writer, *one);
    store_.end_layer(layer);
    return done;
  }

  Status append_bundle(SafetensorsWriter& writer, const StoredExpert& one) const {
    while (!store_.convert_slot(one.layer, one.slot, store_.bundle_bytes(one.layer))) {
    }
    Checksum running = ExpertStore::start_checksum(one.layer, one.expert);
    for (std::size_t tensor = 0; tensor < store_.tensors(one.layer).size(); ++tensor) {
      const auto payload = store_.tensor_payload(one.layer, tensor, one.slot);
      running.update(payload);
      if (Status done = writer.append(payload); !done) return done;
    }
    return writer.replace_metadata(checksum_key(one.layer, one.expert), checksum_text(running.digest()));
  }

  ExpertStore& store_;
  std::span<const StoredExpert> experts_;
  const ExpertNames& names_;
};

}  // namespace

std::vector<StoredExpert> checkpoint_share(const Placement& placement, IdRange<SlotId> slots) {
  std::vector<StoredExpert> share;
  for (LayerId layer : ids<LayerId>(placement.num_layers())) {
    for (SlotId slot : slots) {
      const ExpertId expert = placement.expert_at(layer, slot);
      if (expert == no_expert || placement.replicas(layer, expert).front() != slot) continue;
      share.push_back({layer, expert, slot});
    }
  }
  return share;
}

Status write_checkpoint_shard(const std::string& path, ExpertStore& store,
                              std::span<const StoredExpert> experts, const CheckpointNames& names) {
  if (!names.parts.empty()) return bad(fmt::format("{}: tensors cannot be written in parts", path));
  const auto pattern = ExpertNames::make(names.pattern);
  if (!pattern) return tl::unexpected<Error>(pattern.error());
  std::vector<StoredExpert> sorted(experts.begin(), experts.end());
  std::ranges::sort(sorted, {}, order_of);
  const Status sound = check_experts(store, sorted);
  if (!sound) return failure(sound.error().code, fmt::format("{}: {}", path, sound.error().message));
  if (!store.try_acquire_workspaces()) {
    return failure(Errc::unavailable, fmt::format("{}: the store's workspaces are in use", path));
  }
  Status done = ShardWriter(store, sorted, *pattern).write(path);
  store.release_workspaces();
  return done;
}

std::string shard_name(Rank rank, std::int32_t num_ranks) {
  return fmt::format("model-{:05}-of-{:05}.safetensors", rank.value() + 1, num_ranks);
}

Status write_checkpoint_index(const std::string& folder, std::span<const std::string> shard_names) {
  SafetensorsIndex index;
  for (const std::string& name : shard_names) {
    const auto file = SafetensorsFile::open((std::filesystem::path(folder) / name).string());
    if (!file) return tl::unexpected<Error>(file.error());
    for (const SafetensorsTensor& tensor : file->tensors()) {
      const auto [at, is_new] = index.file_of.emplace(tensor.name, name);
      if (!is_new) {
        return bad(
            fmt::format("{}: tensor {} is in {} as well", file->path(), shown(tensor.name), at->second));
      }
      index.total_bytes += tensor.size_bytes();
    }
  }
  return index.write((std::filesystem::path(folder) / index_name).string());
}

}  // namespace trimtab
