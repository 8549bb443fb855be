// SPDX-License-Identifier: Apache-2.0
#include <trimtab/balance/splitter.hpp>
#include <trimtab/core/checksum.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace trimtab {
namespace {

/// Whether the window loaded this layer at all. A negative count is left for the solver to refuse.
bool is_silent(std::span<const std::int64_t> counts) {
  return std::ranges::all_of(counts, [](std::int64_t count) { return count == 0; });
}

}  // namespace

Splitter::Splitter(Placement placement, Topology topology, Epoch epoch, ModelRole model)
    : placement_(std::move(placement)), topology_(std::move(topology)), epoch_(epoch), model_(model) {
  assignments_.resize(static_cast<std::size_t>(placement_.num_layers()) *
                      static_cast<std::size_t>(placement_.num_slots()));
}

Result<Splitter> Splitter::make(const Placement& placement, const Topology& topology, Epoch epoch,
                                ModelRole model) {
  if (Status live = check_live(placement, topology); !live) return failure(std::move(live));
  Splitter made(placement, topology, epoch, model);
  for (LayerId layer : ids<LayerId>(placement.num_layers())) {
    Result<SplitSolver> solver = SplitSolver::make(placement.layer(layer), placement.num_experts(), topology);
    if (!solver) {
      return failure(solver.error().code, fmt::format("layer {}: {}", layer.value(), solver.error().message));
    }
    made.solvers_.push_back(std::move(*solver));
  }
  return made;
}

Result<Split> Splitter::solve(std::span<const std::int64_t> counts, Executor& executor) {
  const auto num_experts = static_cast<std::size_t>(placement_.num_experts());
  const auto num_slots = static_cast<std::size_t>(placement_.num_slots());
  if (counts.size() != solvers_.size() * num_experts) {
    return failure(Errc::invalid_argument, fmt::format("{} counts for {} layers x {} experts", counts.size(),
                                                       solvers_.size(), num_experts));
  }
  std::vector<Status> solved(solvers_.size());
  executor.for_each_index(solvers_.size(), [&](std::size_t layer) {
    const auto row = counts.subspan(layer * num_experts, num_experts);
    if (is_silent(row)) return;
    const auto out = std::span(assignments_).subspan(layer * num_slots, num_slots);
    if (Result<SplitResult> result = solvers_[layer].solve(row, out); !result) {
      solved[layer] = failure(std::move(result));
    }
  });
  for (std::size_t layer = 0; layer < solved.size(); ++layer) {
    if (solved[layer]) continue;
    const Error& error = solved[layer].error();
    return failure(error.code, fmt::format("layer {}: {}", layer, error.message));
  }
  return Split::make(placement_.num_layers(), placement_.num_slots(), assignments_);
}

Result<RoutingTable> Splitter::make_table(std::span<const std::int64_t> counts, std::uint32_t version,
                                          Executor& executor) {
  Result<Split> split = solve(counts, executor);
  if (!split) return failure(std::move(split));
  return RoutingTable::compile(placement_, topology_, {epoch_, version}, *split, {.model = model_});
}

Result<TableIdentity> Splitter::solve_and_publish(std::span<const std::int64_t> counts,
                                                  TablePublisher& publisher, Executor& executor) {
  const TableIdentity current = publisher.identity();
  if (current.epoch != epoch_) {
    return failure(Errc::version_mismatch, fmt::format("shares for epoch {}, but epoch {} is in service",
                                                       epoch_.value(), current.epoch.value()));
  }
  Result<RoutingTable> table = make_table(counts, current.split_version + 1, executor);
  if (!table) return failure(std::move(table));
  const TableIdentity next = table->identity();
  if (Status published = publisher.publish(std::move(*table)); !published) {
    return failure(std::move(published));
  }
  return next;
}

Result<TableIdentity> Splitter::solve_and_publish(std::span<const std::int64_t> counts, TableBuffer& buffer,
                                                  Executor& executor) {
  const Result<RoutingTable> table = make_table(counts, buffer_version_ + 1, executor);
  if (!table) return tl::unexpected(table.error());
  if (Status published = buffer.publish_at_boundary(*table); !published) {
    return failure(std::move(published));
  }
  buffer_version_ = table->identity().split_version;
  return table->identity();
}

SplitTables::SplitTables(std::vector<std::int64_t> counts) : counts_(std::move(counts)) {}

Result<RoutingTable> SplitTables::compile(const Placement& placement, const Topology& topology,
                                          TableIdentity identity) const {
  Result<Splitter> splitter = Splitter::make(placement, topology, identity.epoch);
  if (!splitter) return failure(std::move(splitter));
  SerialExecutor executor;
  Result<Split> split = splitter->solve(counts_, executor);
  if (!split) return failure(std::move(split));
  return RoutingTable::compile(placement, topology, identity, *split);
}

std::uint64_t SplitTables::fingerprint() const noexcept {
  return checksum_of(std::as_bytes(std::span(counts_)));
}

}  // namespace trimtab
