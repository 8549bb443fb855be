// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "migrate/kept_bundles.hpp"

#include <trimtab/core/topology.hpp>
#include <trimtab/transport/transport.hpp>
#include <trimtab/weights/expert_source.hpp>
#include <trimtab/weights/expert_store.hpp>

namespace trimtab {

/// What the bundles of one rank's part of a step share. All borrowed.
struct StageContext {
  Transport& channel;
  ExpertStore& store;
  const Topology& topology;
  Tag tag;  ///< Names (view, attempt): payloads of another attempt never meet this one's receives.
  ExpertSource* source = nullptr;     ///< Of experts that no slot holds any more; null: none.
  const KeptBundles* kept = nullptr;  ///< Here; read instead of the slot they were in. Null: none.
};

}  // namespace trimtab
