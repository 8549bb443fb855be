// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/executor.hpp>
#include <trimtab/core/ids.hpp>
#include <trimtab/core/model_role.hpp>
#include <trimtab/core/placement.hpp>
#include <trimtab/core/result.hpp>
#include <trimtab/core/topology.hpp>
#include <trimtab/migrate/table_compiler.hpp>
#include <trimtab/route/table_buffer.hpp>
#include <trimtab/route/table_publisher.hpp>
#include <trimtab/split/split.hpp>
#include <trimtab/split/split_solver.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace trimtab {

/// The first answer to a shift in traffic: other shares for the replicas that are there. Moves nothing.
///
/// Holds one solver per layer for one placement, and the shares of the last solution: a layer that a window
/// did not load keeps them. One thread at a time; copies of the placement's maps are its own.
class Splitter {
 public:
  /// For the placement of `model` that is in service at `epoch`. Target and draft models have splitters of
  /// their own, as they have tables of their own.
  /// @return the error of `check_live`.
  static Result<Splitter> make(const Placement& placement, const Topology& topology, Epoch epoch,
                               ModelRole model = ModelRole::target);

  /// The best shares for these counts, [layers][experts]: assignments per expert, summed over all ranks.
  /// Layers are solved in parallel over `executor`; the answer does not depend on it.
  /// @return `invalid_argument` naming layer, expert and value for a negative count, or the sizes.
  Result<Split> solve(std::span<const std::int64_t> counts, Executor& executor);

  /// To be called from an engine's statistics callback, with the same counts on every rank after the same
  /// forward: solves, compiles and publishes as the next split version of the epoch in service.
  /// @return the identity published; besides the errors of `solve`, `version_mismatch` when `publisher` has
  ///         left this splitter's epoch. Then nothing was published.
  Result<TableIdentity> solve_and_publish(std::span<const std::int64_t> counts, TablePublisher& publisher,
                                          Executor& executor);

  /// The same into memory that captured graphs read (R6), given that no forward reads it now. Versions are
  /// counted by this splitter, from 1.
  /// @return besides, the errors of TableBuffer::publish_at_boundary.
  Result<TableIdentity> solve_and_publish(std::span<const std::int64_t> counts, TableBuffer& buffer,
                                          Executor& executor);

  [[nodiscard]] Epoch epoch() const noexcept { return epoch_; }

 private:
  Splitter(Placement placement, Topology topology, Epoch epoch, ModelRole model);
  Result<RoutingTable> make_table(std::span<const std::int64_t> counts, std::uint32_t version,
                                  Executor& executor);

  Placement placement_;
  Topology topology_;
  Epoch epoch_;
  ModelRole model_;
  std::uint32_t buffer_version_ = 0;       ///< Last published into a buffer.
  std::vector<SplitSolver> solvers_;       ///< [layers]
  std::vector<std::int64_t> assignments_;  ///< [layers][slots]: the last solution.
};

/// Tables with the best shares for given counts, whatever the placement: what the steps of a program publish.
class SplitTables final : public TableCompiler {
 public:
  /// `counts` is [layers][experts], equal on every rank.
  explicit SplitTables(std::vector<std::int64_t> counts);

  [[nodiscard]] Result<RoutingTable> compile(const Placement& placement, const Topology& topology,
                                             TableIdentity identity) const override;
  [[nodiscard]] std::uint64_t fingerprint() const noexcept override;

 private:
  std::vector<std::int64_t> counts_;
};

}  // namespace trimtab
