// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>

#include <span>

#include "moe/config.hpp"
#include "moe/weights.hpp"

namespace trimtab::moe {

/// Where the weights of expert layers come from. Calls may run together.
class WeightSource {
 public:
  virtual ~WeightSource() = default;

  virtual void fill_expert(LayerId layer, ExpertId expert, const Bundle& out) const noexcept = 0;
  virtual void fill_gate(LayerId layer, std::span<float> out) const noexcept = 0;  ///< [hidden][experts]
  virtual void fill_norm(LayerId layer, std::span<float> out) const noexcept = 0;  ///< [hidden]
};

/// Drawn from the config's seed.
class GeneratedWeights final : public WeightSource {
 public:
  explicit GeneratedWeights(const ModelConfig& config) : config_(config) {}

  void fill_expert(LayerId layer, ExpertId expert, const Bundle& out) const noexcept override {
    generate_expert(config_, layer, expert, out);
  }
  void fill_gate(LayerId layer, std::span<float> out) const noexcept override {
    generate_gate(config_, layer, out);
  }
  void fill_norm(LayerId layer, std::span<float> out) const noexcept override {
    generate_norm(config_, layer, out);
  }

 private:
  ModelConfig config_;
};

}  // namespace trimtab::moe
