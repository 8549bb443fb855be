// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_catalogue.hpp"

#include "checkpoint_metadata.hpp"
#include "expert_names.hpp"
#include "safetensors_header.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <span>

namespace trimtab {
namespace {

using Key = std::pair<LayerId, ExpertId>;
using Found = std::map<std::string_view, TensorPlace>;  // By the tensor's own name.

tl::unexpected<Error> bad(std::string message) { return failure(Errc::invalid_argument, std::move(message)); }

std::string place_of(const TensorPlace& place) {
  return fmt::format("{}: tensor {}", place.file->path(), shown(place.tensor->name));
}

/// Makes one bundle's entry of what the files have under its names.
class EntryBuilder {
 public:
  EntryBuilder(const std::string& path, const ExpertStore& store, const CheckpointNames& names,
               const ExpertNames& pattern)
      : path_(path), store_(store), names_(names), pattern_(pattern) {}

  Result<CatalogueEntry> build(Key key, const Found& found) const {
    CatalogueEntry entry;
    for (const TensorSpec& tensor : store_.tensors(key.first)) {
      if (Status done = add_tensor(key, tensor, found, entry); !done) return failure(std::move(done));
    }
    entry.size_bytes = store_.bundle_bytes(key.first);
    if (Status done = add_checksum(key, entry); !done) return failure(std::move(done));
    return entry;
  }

 private:
  Status add_tensor(Key key, const TensorSpec& tensor, const Found& found, CatalogueEntry& entry) const {
    std::uint64_t bytes = 0;
    std::string parts;
    for (const std::string& name : parts_of(tensor)) {
      const auto at = found.find(name);
      if (at == found.end()) {
        return bad(fmt::format("{}: no tensor {}, which the store's layer {}, tensor {} needs", path_,
                               shown(pattern_.name(key.first, key.second, name)), key.first.value(),
                               tensor.name));
      }
      if (Status same = check_type(key, tensor, at->second); !same) return same;
      bytes += at->second.tensor->size_bytes();
      entry.parts.push_back(at->second);
    }
    if (bytes == tensor.slot_bytes) return {};
    return bad(fmt::format("{}: {} bytes, but the store's layer {}, tensor {} has {}",
                           place_of(entry.parts.back()), bytes, key.first.value(), tensor.name,
                           tensor.slot_bytes));
  }

  static Status check_type(Key key, const TensorSpec& tensor, const TensorPlace& place) {
    if (is_stored_as(tensor.type, place.tensor->type)) return {};
    return bad(fmt::format("{}: type {}, but the store's layer {}, tensor {} is {}", place_of(place),
                           to_string(place.tensor->type), key.first.value(), tensor.name,
                           to_string(stored_type(tensor.type))));
  }

  /// The file of the bundle's first tensor keeps it.
  Status add_checksum(Key key, CatalogueEntry& entry) const {
    const SafetensorsFile& file = *entry.parts.front().file;
    const auto stored = file.metadata().find(checksum_key(key.first, key.second));
    if (stored == file.metadata().end()) return {};
    entry.checksum = parse_checksum(stored->second);
    if (!entry.checksum) {
      return bad(fmt::format("{}: metadata {} is {}, not 16 hexadecimal digits", file.path(),
                             shown(stored->first), shown(stored->second)));
    }
    return check_order(key, file);
  }

  Status check_order(Key key, const SafetensorsFile& file) const {
    const auto stored = file.metadata().find(bundle_key(key.first));
    const std::string order = bundle_text(store_.tensors(key.first));
    if (stored != file.metadata().end() && stored->second == order) return {};
    return bad(fmt::format("{}: the checksums of layer {} are of tensors {}, but the store has {}",
                           file.path(), key.first.value(),
                           stored == file.metadata().end() ? "not told" : shown(stored->second),
                           shown(order)));
  }

  std::vector<std::string> parts_of(const TensorSpec& tensor) const {
    const auto at = names_.parts.find(tensor.name);
    if (at == names_.parts.end()) return {tensor.name};
    return at->second;
  }

  const std::string& path_;
  const ExpertStore& store_;
  const CheckpointNames& names_;
  const ExpertNames& pattern_;
};

Status check_parts(const CheckpointNames& names) {
  for (const auto& [tensor, parts] : names.parts) {
    if (parts.empty()) return bad(fmt::format("tensor {}: made of no parts", shown(tensor)));
  }
  return {};
}

std::map<Key, Found> find_tensors(const CheckpointFiles& files, const ExpertStore& store,
                                  const ExpertNames& pattern) {
  std::map<Key, Found> found;
  for (const TensorPlace& place : files.tensors()) {
    const auto name = pattern.match(place.tensor->name);
    if (!name || store.tensors(name->layer).empty()) continue;
    found[{name->layer, name->expert}].emplace(name->tensor, place);
  }
  return found;
}

}  // namespace

Result<CheckpointCatalogue> CheckpointCatalogue::make(const std::string& path, const CheckpointFiles& files,
                                                      const ExpertStore& store,
                                                      const CheckpointNames& names) {
  const auto pattern = ExpertNames::make(names.pattern);
  if (!pattern) return tl::unexpected<Error>(pattern.error());
  if (Status sound = check_parts(names); !sound) return failure(std::move(sound));
  const EntryBuilder builder(path, store, names, *pattern);
  CheckpointCatalogue catalogue;
  for (const auto& [key, found] : find_tensors(files, store, *pattern)) {
    auto entry = builder.build(key, found);
    if (!entry) return failure(std::move(entry));
    catalogue.entries_.emplace(key, *std::move(entry));
  }
  if (catalogue.entries_.empty()) {
    return bad(fmt::format("{}: none of {} tensors is of an expert of the store's layers by the pattern '{}'",
                           path, files.tensors().size(), names.pattern));
  }
  return catalogue;
}

const CatalogueEntry* CheckpointCatalogue::find(LayerId layer, ExpertId expert) const noexcept {
  const auto at = entries_.find({layer, expert});
  return at == entries_.end() ? nullptr : &at->second;
}

}  // namespace trimtab
