// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/core/result.hpp>

#include <span>

#include "moe/gate_stage.hpp"

namespace trimtab::moe {

/// What a rank computes for its own tokens around the experts of each layer, in a model that is more than its
/// experts. Called by the executor on its thread; an error ends the forward. A token's numbers must not
/// depend on what other tokens are in the batch.
class AroundExperts {
 public:
  virtual ~AroundExperts() = default;

  /// Before the layer's norm and gate. `states` is [tokens][hidden], in place.
  virtual Status before(LayerId layer, std::span<float> states) = 0;
  /// Once the gate has chosen, before what the experts say is added.
  virtual Status beside(LayerId layer, const GateStage& gate, std::span<float> states) = 0;
};

}  // namespace trimtab::moe
