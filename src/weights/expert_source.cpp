// SPDX-License-Identifier: Apache-2.0
#include <trimtab/weights/expert_source.hpp>

#include <fmt/format.h>

#include <utility>

namespace trimtab {

Status ExpertSource::read(LayerId layer, ExpertId expert, std::span<std::byte> bundle) {
  const auto start = std::chrono::steady_clock::now();
  Status done = read_bundle(layer, expert, bundle);
  const std::chrono::nanoseconds taken = std::chrono::steady_clock::now() - start;
  nanoseconds_ += taken.count();
  if (done) {
    ++bundles_read_;
    bytes_read_ += bundle.size();
  } else {
    ++num_failed_;
  }
  return done;
}

SourceCounters ExpertSource::counters() const noexcept {
  return {bundles_read_, bytes_read_, num_failed_, std::chrono::nanoseconds(nanoseconds_)};
}

bool SourceChain::holds(LayerId layer, ExpertId expert) const {
  for (const auto& source : sources_) {
    if (source->holds(layer, expert)) return true;
  }
  return false;
}

bool SourceChain::is_verified(LayerId layer, ExpertId expert) const {
  for (const auto& source : sources_) {
    if (source->holds(layer, expert) && !source->is_verified(layer, expert)) return false;
  }
  return holds(layer, expert);
}

std::string SourceChain::describe() const {
  std::string text;
  for (const auto& source : sources_) text += (text.empty() ? "" : ", then ") + source->describe();
  return text.empty() ? "no source" : text;
}

Status SourceChain::read_bundle(LayerId layer, ExpertId expert, std::span<std::byte> bundle) {
  Errc code = Errc::not_found;
  std::string said;
  for (const auto& source : sources_) {
    if (!source->holds(layer, expert)) continue;
    Status done = source->read(layer, expert, bundle);
    if (done) return done;
    code = done.error().code;
    said += (said.empty() ? "" : "; ") + done.error().message;
  }
  if (!said.empty()) return failure(code, std::move(said));
  return failure(code,
                 fmt::format("layer {}, expert {}: not in {}", layer.value(), expert.value(), describe()));
}

}  // namespace trimtab
