// SPDX-License-Identifier: Apache-2.0
#include <trimtab/weights/checkpoint.hpp>

#include "bundle_verifier.hpp"
#include "checkpoint_catalogue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace trimtab {
namespace {

Status read_part(const TensorPlace& part, std::span<std::byte>& bundle, BundleVerifier& verifier) {
  std::uint64_t offset = 0;
  while (offset < part.tensor->size_bytes()) {
    const std::uint64_t left = part.tensor->size_bytes() - offset;
    const auto piece =
        bundle.first(static_cast<std::size_t>(std::min<std::uint64_t>(left, source_piece_bytes)));
    if (Status done = part.file->read(*part.tensor, offset, piece); !done) return done;
    verifier.update(piece);
    offset += piece.size();
    bundle = bundle.subspan(piece.size());
  }
  return {};
}

}  // namespace

struct CheckpointSource::Catalogue {
  std::string path;
  CheckpointFiles files;
  CheckpointCatalogue bundles;
};

CheckpointSource::CheckpointSource(std::unique_ptr<Catalogue> catalogue) noexcept
    : catalogue_(std::move(catalogue)) {}
CheckpointSource::~CheckpointSource() = default;

Result<std::unique_ptr<CheckpointSource>> CheckpointSource::open(const std::string& path,
                                                                 const ExpertStore& store,
                                                                 const CheckpointNames& names) {
  auto files = CheckpointFiles::open(path);
  if (!files) return failure(std::move(files));
  auto bundles = CheckpointCatalogue::make(path, *files, store, names);
  if (!bundles) return failure(std::move(bundles));
  auto catalogue = std::unique_ptr<Catalogue>(new Catalogue{path, *std::move(files), *std::move(bundles)});
  return std::unique_ptr<CheckpointSource>(new CheckpointSource(std::move(catalogue)));
}

std::size_t CheckpointSource::num_bundles() const noexcept { return catalogue_->bundles.size(); }

bool CheckpointSource::holds(LayerId layer, ExpertId expert) const {
  return catalogue_->bundles.find(layer, expert) != nullptr;
}

bool CheckpointSource::is_verified(LayerId layer, ExpertId expert) const {
  const CatalogueEntry* entry = catalogue_->bundles.find(layer, expert);
  return entry != nullptr && entry->checksum.has_value();
}

std::string CheckpointSource::describe() const {
  return fmt::format("checkpoint {} ({} bundles in {} files)", catalogue_->path, num_bundles(),
                     catalogue_->files.files().size());
}

Status CheckpointSource::read_bundle(LayerId layer, ExpertId expert, std::span<std::byte> bundle) {
  const std::string numbers = fmt::format("layer {}, expert {}", layer.value(), expert.value());
  const CatalogueEntry* entry = catalogue_->bundles.find(layer, expert);
  if (entry == nullptr) return failure(Errc::not_found, fmt::format("{}: no {}", catalogue_->path, numbers));
  const std::string place = fmt::format("{}: {}", entry->parts.front().file->path(), numbers);
  if (Status fits = check_room(place, bundle.size(), entry->size_bytes); !fits) return fits;
  for (const TensorPlace& part : entry->parts) part.file->prefetch(*part.tensor);
  BundleVerifier verifier(layer, expert, entry->checksum);
  for (const TensorPlace& part : entry->parts) {
    Status done = read_part(part, bundle, verifier);
    if (!done) return failure(done.error().code, fmt::format("{} ({})", done.error().message, numbers));
  }
  return verifier.finish(place);
}

}  // namespace trimtab
