// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "moe/config.hpp"
#include "moe/weights.hpp"

namespace trimtab::moe {

/// Owns the memory of one expert's bundle.
class ExpertBuffer {
 public:
  explicit ExpertBuffer(const ModelConfig& config)
      : w13_(2 * config.inner() * config.width()),
        w2_(config.width() * config.inner()),
        scales_(2 * config.inner() + config.width()),
        offsets_(2 * config.inner() + config.width()),
        channels13_(2 * config.inner()) {}

  [[nodiscard]] Bundle bundle() noexcept {
    const auto scales = std::span(scales_);
    const auto offsets = std::span(offsets_);
    return {w13_, scales.first(channels13_),   offsets.first(channels13_),
            w2_,  scales.subspan(channels13_), offsets.subspan(channels13_)};
  }

 private:
  std::vector<std::int8_t> w13_;
  std::vector<std::int8_t> w2_;
  std::vector<float> scales_;
  std::vector<std::int32_t> offsets_;
  std::size_t channels13_;
};

}  // namespace trimtab::moe
