// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/executor.hpp>
#include <trimtab/core/result.hpp>

#include "moe/service.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trimtab {

/// What the user of `trimtab run` asked for; what is not set has a default that depends on the rest.
struct RunOptions {
  std::vector<std::string> loads;  ///< Files, one phase each; none: generated loads.
  std::string model;               ///< Folder of a real model; empty: a generated one.
  std::vector<std::string> texts;  ///< Files, a domain of prompts each; none: those of the model.
  std::int32_t prompt_bytes = 96;
  std::int32_t new_bytes = 32;
  double temperature = 0.0;
  std::string layers;  ///< "A:B", rows of the files; empty: the first four that are not dense.
  std::optional<std::int32_t> ranks;
  std::optional<std::int32_t> slots_per_rank;
  std::int32_t nodes = 1;
  std::int32_t hidden = 256;
  std::int32_t intermediate = 256;
  std::optional<std::int32_t> top_k;
  std::int32_t groups = 1;
  std::optional<std::int32_t> top_groups;
  std::optional<std::int32_t> tokens;     ///< Per rank and forward.
  std::optional<std::uint64_t> forwards;  ///< Of each arm.
  std::uint64_t rebalance_every = 4;
  ShareMode shares = ShareMode::even;
  std::optional<std::uint64_t> split_every;  ///< With exact shares; default 1.
  std::string transport = "inproc";
  std::string layout = "dense";       ///< Or "nz".
  std::vector<std::string> faults;    ///< As written.
  std::int64_t deadline_ms = 60'000;  ///< For every wait of a forward.
  std::optional<std::int64_t> migration_deadline_ms;
  std::optional<std::uint64_t> staging_budget_bytes;
  std::optional<double> stall_budget_ms;
  std::string mutant;  ///< A name of a Mutant; empty: none.
  std::uint64_t seed = 1;
  std::string json;
  std::string checkpoint;  ///< Folder for what the experts of lost ranks come back from; none: who loses a
                           ///< rank ends.
};

/// Reads or generates what is to be served, and finds the gate's bias for generated models. `num_ranks` is
/// settled by the transport.
/// @return the readers' errors; `infeasible` naming slots and experts when they do not fit;
/// `invalid_argument`
///         naming file and shapes when files' shapes differ, or file and layer when a chosen row is dense.
[[nodiscard]] Result<moe::ServiceOptions> prepare_service(const RunOptions& options, std::int32_t num_ranks,
                                                          Executor& executor);

}  // namespace trimtab
