// SPDX-License-Identifier: Apache-2.0
#include <trimtab/weights/host_copy_source.hpp>

#include <trimtab/weights/expert_store.hpp>

#include "bundle_verifier.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace trimtab {
namespace {

std::string place_of(LayerId layer, ExpertId expert) {
  return fmt::format("host copies: layer {}, expert {}", layer.value(), expert.value());
}

}  // namespace

Status HostCopySource::add(LayerId layer, ExpertId expert, std::span<const std::byte> bundle) {
  return add(layer, expert, bundle, ExpertStore::checksum(layer, bundle, expert));
}

Status HostCopySource::add(LayerId layer, ExpertId expert, std::span<const std::byte> bundle,
                           std::uint64_t checksum) {
  if (bundle.empty() || holds(layer, expert)) {
    return failure(Errc::invalid_argument, fmt::format("{}: {}", place_of(layer, expert),
                                                       bundle.empty() ? "no bytes" : "held already"));
  }
  if (bundle.size() > budget_bytes_ - held_bytes_) {
    return failure(Errc::infeasible,
                   fmt::format("{}: {} bytes beside {} held exceed the budget of {}", place_of(layer, expert),
                               bundle.size(), held_bytes_, budget_bytes_));
  }
  Copy copy{{bundle.begin(), bundle.end()}, checksum};
  // Of the copy, not of what it was copied from: memory that is shared may change in between.
  BundleVerifier verifier(layer, expert, checksum);
  verifier.update(copy.bytes);
  if (Status same = verifier.finish(place_of(layer, expert)); !same) return same;
  copies_.emplace(Key{layer, expert}, std::move(copy));
  held_bytes_ += bundle.size();
  return {};
}

bool HostCopySource::remove(LayerId layer, ExpertId expert) {
  const auto at = copies_.find({layer, expert});
  if (at == copies_.end()) return false;
  held_bytes_ -= at->second.bytes.size();
  copies_.erase(at);
  return true;
}

const HostCopySource::Copy* HostCopySource::find(LayerId layer, ExpertId expert) const noexcept {
  const auto at = copies_.find({layer, expert});
  return at == copies_.end() ? nullptr : &at->second;
}

std::span<const std::byte> HostCopySource::bundle(LayerId layer, ExpertId expert) const noexcept {
  const Copy* copy = find(layer, expert);
  return copy == nullptr ? std::span<const std::byte>{} : copy->bytes;
}

std::uint64_t HostCopySource::checksum(LayerId layer, ExpertId expert) const noexcept {
  const Copy* copy = find(layer, expert);
  return copy == nullptr ? 0 : copy->checksum;
}

bool HostCopySource::holds(LayerId layer, ExpertId expert) const { return find(layer, expert) != nullptr; }

bool HostCopySource::is_verified(LayerId layer, ExpertId expert) const { return holds(layer, expert); }

std::string HostCopySource::describe() const {
  return fmt::format("{} host copies ({} of {} bytes)", copies_.size(), held_bytes_, budget_bytes_);
}

Status HostCopySource::read_bundle(LayerId layer, ExpertId expert, std::span<std::byte> bundle) {
  const Copy* copy = find(layer, expert);
  const std::string place = place_of(layer, expert);
  if (copy == nullptr) return failure(Errc::not_found, place + ": not held");
  if (Status fits = check_room(place, bundle.size(), copy->bytes.size()); !fits) return fits;
  BundleVerifier verifier(layer, expert, copy->checksum);
  for (std::span<const std::byte> from = copy->bytes; !from.empty();) {
    const auto piece = from.first(std::min(from.size(), source_piece_bytes));
    std::memcpy(bundle.data(), piece.data(), piece.size());
    verifier.update(bundle.first(piece.size()));
    bundle = bundle.subspan(piece.size());
    from = from.subspan(piece.size());
  }
  return verifier.finish(place);
}

}  // namespace trimtab
