// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "verify/case.hpp"

#include <trimtab/weights/expert_source.hpp>

namespace trimtab::verify {

/// Every expert of a case, made on the spot: what a checkpoint would hold.
class KnownSource final : public ExpertSource {
 public:
  explicit KnownSource(const Case& drawn) : drawn_(drawn) {}

  [[nodiscard]] bool holds(LayerId layer, ExpertId expert) const override;
  [[nodiscard]] bool is_verified(LayerId layer, ExpertId expert) const override {
    return holds(layer, expert);
  }
  [[nodiscard]] std::string describe() const override { return "the case itself"; }

 private:
  Status read_bundle(LayerId layer, ExpertId expert, std::span<std::byte> bundle) override;

  const Case& drawn_;
};

}  // namespace trimtab::verify
