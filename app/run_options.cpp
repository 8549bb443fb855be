// SPDX-License-Identifier: Apache-2.0
#include "app/run_options.hpp"

#include "app/console.hpp"
#include "app/layer_range.hpp"
#include "app/run_faults.hpp"
#include "app/run_text.hpp"
#include "io/generate.hpp"
#include "io/load_file.hpp"
#include "moe/calibrate.hpp"

#include <trimtab/core/load_matrix.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace trimtab {
namespace {

constexpr std::int32_t default_layers = 4;

/// Of a real model, per rank and forward: what a batch of some dozen sequences has.
constexpr std::int32_t default_text_tokens = 256;

/// Loads of the rows to serve, one matrix per phase.
struct RunLoads {
  std::vector<LoadMatrix> phases;
  std::vector<std::int32_t> rows;  ///< Where each layer stood in its file; from 0 for generated loads.
};

/// At least this many tokens for each expert and forward: below, int8 GEMMs follow activated experts, not
/// tokens.
constexpr std::int64_t tokens_per_expert = 128;

std::int32_t divide_up(std::int64_t a, std::int64_t b) { return static_cast<std::int32_t>((a + b - 1) / b); }

/// A domain of traffic: consecutive experts that are this many times as popular as the others.
struct Domain {
  std::int32_t first;
  std::int32_t size = 10;
  double heat = 8.0;
};

/// One phase each. On two ranks the identity placement has all of them on the first, so that there is
/// something to balance while they shift.
constexpr Domain domains[] = {{4}, {7}, {5}};

Result<LoadMatrix> heat(const LoadMatrix& loads, const Domain& domain) {
  std::vector<double> heated;
  for (LayerId layer : ids<LayerId>(loads.num_layers())) {
    for (ExpertId expert : ids<ExpertId>(loads.num_experts())) {
      const bool is_hot = domain.first <= expert.value() && expert.value() < domain.first + domain.size;
      heated.push_back(loads.layer(layer)[expert.index()] * (is_hot ? domain.heat : 1.0));
    }
  }
  return LoadMatrix::make(loads.num_layers(), loads.num_experts(), std::move(heated));
}

/// Traffic that shifts between domains, over 32 experts whose popularity drifts besides.
Result<RunLoads> generate_run_loads(const RunOptions& options) {
  GenerateOptions generate;
  generate.num_layers = default_layers;
  generate.num_experts = 32;
  generate.sigma = 0.5;
  generate.num_phases = static_cast<std::int32_t>(std::size(domains));
  generate.drift = 0.5;
  generate.top_k = options.top_k.value_or(4);
  generate.seed = options.seed;
  Result<std::vector<LoadMatrix>> phases = generate_loads(generate);
  if (!phases) return failure(std::move(phases));
  RunLoads loads{{}, {0, 1, 2, 3}};
  for (std::size_t phase = 0; phase < phases->size(); ++phase) {
    Result<LoadMatrix> heated = heat((*phases)[phase], domains[phase]);
    if (!heated) return failure(std::move(heated));
    loads.phases.push_back(std::move(*heated));
  }
  return loads;
}

std::vector<std::int32_t> choose_rows(const RunOptions& options, const LoadMatrix& loads) {
  std::vector<std::int32_t> rows;
  if (!options.layers.empty()) {
    const LayerRange range = checked_range(options.layers, loads.num_layers());
    for (std::int32_t row = range.first; row < range.last; ++row) rows.push_back(row);
    return rows;
  }
  for (LayerId layer : ids<LayerId>(loads.num_layers())) {
    if (!loads.is_dense(layer) && rows.size() < default_layers) rows.push_back(layer.value());
  }
  return rows;
}

Result<LoadMatrix> pick_rows(const LoadMatrix& loads, const std::vector<std::int32_t>& rows,
                             const std::string& path) {
  std::vector<double> picked;
  for (std::int32_t row : rows) {
    if (loads.is_dense(LayerId{row})) {
      return failure(
          Errc::invalid_argument,
          fmt::format("{}: layer {}: the load is zero throughout, so there is nothing to route", path, row));
    }
    std::ranges::copy(loads.layer(LayerId{row}), std::back_inserter(picked));
  }
  if (rows.empty())
    return failure(Errc::invalid_argument, fmt::format("{}: every layer is zero throughout", path));
  return LoadMatrix::make(static_cast<std::int32_t>(rows.size()), loads.num_experts(), std::move(picked));
}

Result<RunLoads> read_run_loads(const RunOptions& options) {
  RunLoads loads;
  std::int32_t num_layers = 0;
  for (const std::string& path : options.loads) {
    Result<LoadFile> file = read_load_file(path, read_progress_bar(path));
    if (!file) return failure(std::move(file));
    const LoadMatrix& all = file->loads;
    if (loads.phases.empty()) {
      num_layers = all.num_layers();
      loads.rows = choose_rows(options, all);
    } else if (all.num_layers() != num_layers || all.num_experts() != loads.phases[0].num_experts()) {
      return failure(
          Errc::invalid_argument,
          fmt::format("{}: {} layers x {} experts, but {} has {} x {}", path, all.num_layers(),
                      all.num_experts(), options.loads[0], num_layers, loads.phases[0].num_experts()));
    }
    Result<LoadMatrix> picked = pick_rows(all, loads.rows, path);
    if (!picked) return failure(std::move(picked));
    loads.phases.push_back(std::move(*picked));
  }
  return loads;
}

moe::ModelConfig make_model(const RunOptions& options, const RunLoads& loads) {
  moe::ModelConfig model;
  model.num_layers = loads.phases[0].num_layers();
  model.num_experts = loads.phases[0].num_experts();
  const std::int32_t usual_top_k = model.num_experts >= 64 ? 8 : model.num_experts >= 16 ? 4 : 2;
  model.top_k = options.top_k.value_or(std::min(usual_top_k, model.num_experts));
  model.hidden = options.hidden;
  model.intermediate = options.intermediate;
  model.num_groups = options.groups;
  model.top_groups = options.top_groups.value_or(options.groups);
  model.seed = options.seed;
  return model;
}

/// What a lost transfer may stop the service for, where one is asked for.
constexpr std::int64_t faulty_deadline_ms = 2'000;

/// What a mutant does wrong shows in the forwards after a plan, so there must be some in the same block.
/// Nobody asks for its speed.
void lengthen_blocks(std::uint64_t forwards, moe::ServiceOptions& service) {
  constexpr std::uint64_t forwards_of_a_step = 8;
  service.num_quads = 8;
  service.block_forwards = std::max((forwards + 15) / 16, service.rebalance_every + forwards_of_a_step);
}

Status set_migration(const RunOptions& options, moe::ServiceOptions& service) {
  service.deadline = std::chrono::milliseconds(options.deadline_ms);
  service.migration_deadline = std::chrono::milliseconds(options.migration_deadline_ms.value_or(
      options.faults.empty() ? options.deadline_ms : std::min(options.deadline_ms, faulty_deadline_ms)));
  service.staging_budget_bytes = options.staging_budget_bytes.value_or(0);
  if (options.stall_budget_ms) {
    service.stall_budget = std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double, std::milli>(*options.stall_budget_ms));
  }
  service.layout = options.layout == "nz" ? moe::WeightLayout::nz : moe::WeightLayout::dense;
  service.mutant = mutant_named(options.mutant);
  Result<std::vector<moe::TransferFault>> faults = parse_faults(options.faults, service.migration_deadline);
  if (!faults) return failure(std::move(faults));
  service.faults = std::move(*faults);
  return {};
}

/// One eighth more than the experts need, at least one.
std::int32_t default_slots_per_rank(std::int32_t num_experts, std::int32_t num_ranks) {
  const std::int32_t needed = divide_up(num_experts, num_ranks);
  return needed + std::max(1, needed / 8);
}

/// In the middle of the run, so that there is a before and an after.
Status add_rank_fault(const RunOptions& options, moe::ServiceOptions& service) {
  if (!options.checkpoint.empty()) service.survival.emplace().checkpoint = options.checkpoint;
  const Result<std::optional<NamedRankFault>> named = parse_rank_fault(options.faults);
  if (!named) return tl::unexpected(named.error());
  if (!*named) return {};
  const std::string spec = fmt::format("{}:{}", to_string((*named)->kind), (*named)->rank.value());
  const Rank rank = (*named)->rank;
  const Topology& topology = service.topology;
  if (rank.value() >= topology.num_ranks()) {
    return failure(Errc::infeasible,
                   fmt::format("{}: there are {} ranks, from 0", spec, topology.num_ranks()));
  }
  const auto left = topology.num_slots() - static_cast<std::int32_t>(topology.slots_of(rank).size());
  if (left < service.model.num_experts) {
    return failure(Errc::infeasible, fmt::format("{}: the ranks left have {} slots per layer < {} experts",
                                                 spec, left, service.model.num_experts));
  }
  moe::RankFault& fault = service.rank_fault.emplace();
  fault.rank = rank;
  fault.forward = service.num_quads * service.block_forwards + service.block_forwards / 2;
  return {};
}

Result<RunLoads> make_run_loads(const RunOptions& options) {
  return options.loads.empty() ? generate_run_loads(options) : read_run_loads(options);
}

Result<Topology> make_topology(const RunOptions& options, const moe::ModelConfig& model,
                               std::int32_t num_ranks) {
  const std::int32_t slots_per_rank =
      options.slots_per_rank.value_or(default_slots_per_rank(model.num_experts, num_ranks));
  Result<Topology> topology = Topology::make_uniform(num_ranks, options.nodes, num_ranks * slots_per_rank);
  if (!topology || topology->num_slots() >= model.num_experts) return topology;
  return failure(Errc::infeasible, fmt::format("{} ranks x {} slots < {} experts: every expert needs a slot",
                                               num_ranks, slots_per_rank, model.num_experts));
}

/// How many forwards, in how many blocks.
void set_length(const RunOptions& options, std::uint64_t default_forwards, moe::ServiceOptions& service) {
  const std::uint64_t forwards = options.forwards.value_or(default_forwards);
  // Short blocks cancel the drift of a noisy machine best; fewer than 8 quads say little.
  service.num_quads = std::clamp<std::uint64_t>(forwards / 4, 8, 24);
  service.block_forwards = (forwards + 2 * service.num_quads - 1) / (2 * service.num_quads);
  service.rebalance_every = options.rebalance_every;
  if (!options.mutant.empty()) lengthen_blocks(forwards, service);
}

/// Everything but what decides the gate's bias.
Result<moe::ServiceOptions> make_service_options(const RunOptions& options, const moe::ModelConfig& model,
                                                 std::int32_t num_ranks, std::uint64_t default_forwards) {
  if (Status checked = moe::check_config(model); !checked) return failure(std::move(checked));
  Result<Topology> topology = make_topology(options, model, num_ranks);
  if (!topology) return failure(std::move(topology));
  const std::vector<float> no_bias(model.layers() * model.experts());
  Result<moe::GateSchedule> schedule = moe::GateSchedule::make(model, no_bias, 1);
  if (!schedule) return failure(std::move(schedule));
  moe::ServiceOptions service{
      .model = model, .topology = std::move(*topology), .schedule = std::move(*schedule)};
  service.plan.num_groups = model.num_groups;
  service.plan.shares = options.shares;
  service.split_every = options.shares == ShareMode::exact ? options.split_every.value_or(1) : 0;
  set_length(options, default_forwards, service);
  if (Status set = set_migration(options, service); !set) return failure(std::move(set));
  if (Status added = add_rank_fault(options, service); !added) return failure(std::move(added));
  return service;
}

Status calibrate_service(moe::ServiceOptions& service, const RunLoads& loads, Executor& executor) {
  moe::CalibrationOptions options;
  options.first_layer = LayerId{loads.rows.front()};
  Result<moe::Calibration> calibration =
      moe::calibrate(service.model, loads.phases, service.topology, options, executor);
  if (!calibration) return failure(std::move(calibration));
  Result<moe::GateSchedule> schedule =
      moe::GateSchedule::make(service.model, std::move(calibration->bias), service.forwards());
  if (!schedule) return failure(std::move(schedule));
  service.schedule = std::move(*schedule);
  return {};
}

Result<moe::ServiceOptions> prepare_generated(const RunOptions& options, std::int32_t num_ranks,
                                              Executor& executor) {
  const Result<RunLoads> loads = make_run_loads(options);
  if (!loads) return tl::unexpected(loads.error());
  // Recorded models are several times as large as the generated one.
  const std::uint64_t forwards = options.loads.empty() ? 64 : 16;
  Result<moe::ServiceOptions> service =
      make_service_options(options, make_model(options, *loads), num_ranks, forwards);
  if (!service) return service;
  const std::int64_t choices = std::int64_t{service->model.top_k} * num_ranks;
  service->tokens_per_rank =
      options.tokens.value_or(divide_up(tokens_per_expert * service->model.num_experts, choices));
  if (Status calibrated = calibrate_service(*service, *loads, executor); !calibrated)
    return failure(std::move(calibrated));
  return service;
}

/// The model's own bias is all there is: what its experts are asked for follows from the texts.
Result<moe::ServiceOptions> prepare_text(const RunOptions& options, std::int32_t num_ranks) {
  constexpr std::uint64_t forwards = 128;
  Result<std::shared_ptr<moe::TextService>> text = read_text_service(options);
  if (!text) return failure(std::move(text));
  const moe::ModelConfig& model = (*text)->model.config.experts;
  Result<moe::ServiceOptions> service = make_service_options(options, model, num_ranks, forwards);
  if (!service) return service;
  Result<moe::GateSchedule> schedule = moe::GateSchedule::make(model, (*text)->model.gate_bias(), 1);
  if (!schedule) return failure(std::move(schedule));
  service->schedule = std::move(*schedule);
  service->tokens_per_rank = options.tokens.value_or(default_text_tokens);
  (*text)->traffic.num_forwards = service->forwards();
  service->text = std::move(*text);
  return service;
}

}  // namespace

Result<moe::ServiceOptions> prepare_service(const RunOptions& options, std::int32_t num_ranks,
                                            Executor& executor) {
  return options.model.empty() ? prepare_generated(options, num_ranks, executor)
                               : prepare_text(options, num_ranks);
}

}  // namespace trimtab
