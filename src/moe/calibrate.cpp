// SPDX-License-Identifier: Apache-2.0
#include "moe/calibrate.hpp"

#include <trimtab/core/imbalance.hpp>
#include <trimtab/core/placement.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "moe/bias_search.hpp"
#include "moe/gate.hpp"
#include "moe/sample_batch.hpp"

namespace trimtab::moe {
namespace {

struct Target {
  std::int32_t phase;
  LayerId layer;  ///< Of the model.
  LayerId name;   ///< In messages.
  std::vector<double> shares;
};

std::string place(const Target& target) {
  return fmt::format("phase {}, layer {}", target.phase, target.name.value());
}

Result<Target> make_target(const ModelConfig& config, const LoadMatrix& loads, std::int32_t phase,
                           LayerId layer, LayerId first_layer) {
  Target target{phase, layer, LayerId{first_layer.value() + layer.value()}, {}};
  if (loads.is_dense(layer)) {
    return failure(Errc::invalid_argument,
                   fmt::format("{}: no load to follow (a dense layer)", place(target)));
  }
  for (const double load : loads.layer(layer)) target.shares.push_back(load / loads.total(layer));
  const auto largest = std::max_element(target.shares.begin(), target.shares.end());
  const double limit = 1.0 / config.top_k;
  if (*largest > limit * (1.0 + 1e-9)) {
    return failure(
        Errc::infeasible,
        fmt::format("{}: expert {} takes {:.4f} of the load > {:.4f}: a token chooses it at most once "
                    "among top-{}",
                    place(target), largest - target.shares.begin(), *largest, limit, config.top_k));
  }
  return target;
}

Status check_shapes(const ModelConfig& config, std::span<const LoadMatrix> phases) {
  if (phases.empty()) return failure(Errc::invalid_argument, "no loads to calibrate the gate for");
  for (std::size_t p = 0; p < phases.size(); ++p) {
    if (phases[p].num_layers() == config.num_layers && phases[p].num_experts() == config.num_experts)
      continue;
    return failure(
        Errc::invalid_argument,
        fmt::format("phase {}: loads of {} layers x {} experts for a model of {} x {}", p,
                    phases[p].num_layers(), phases[p].num_experts(), config.num_layers, config.num_experts));
  }
  return {};
}

std::size_t sample_size(const ModelConfig& config, const CalibrationOptions& options) {
  if (options.sample_tokens > 0) return options.sample_tokens;
  return std::clamp<std::size_t>(256 * config.experts() / config.choices(), 1024, 4096);
}

/// Works through all phases and layers, filling a Calibration.
class Calibrator {
 public:
  Calibrator(const ModelConfig& config, const Topology& topology, const Placement& identity,
             const CalibrationOptions& options, Executor& executor)
      : config_(config),
        topology_(topology),
        identity_(identity),
        options_(options),
        weights_(config),
        batch_(config, weights_, sample_size(config, options), executor) {}

  Status run_phase(std::int32_t phase, const LoadMatrix& loads) {
    batch_.restart();
    for (const LayerId layer : ids<LayerId>(config_.num_layers)) {
      Result<Target> target = make_target(config_, loads, phase, layer, options_.first_layer);
      if (!target) return failure(std::move(target));
      if (Status fitted = run_layer(*target); !fitted) return fitted;
    }
    return {};
  }

  [[nodiscard]] Calibration take() { return std::move(result_); }

 private:
  Status run_layer(const Target& target) {
    batch_.score(target.layer);
    const BiasFit found = search_bias(config_, batch_, target.shares, options_.max_iterations);
    const std::vector<double> counts(found.counts.begin(), found.counts.end());
    const LayerFit fit{target.phase,         target.name,           imbalance_of(target.shares),
                       imbalance_of(counts), found.misplaced_share, found.iterations};
    if (fit.error() > options_.tolerance) {
      return failure(
          Errc::infeasible,
          fmt::format("{}: the gate reaches a rank imbalance of {:.4f} for a target of {:.4f}, off by "
                      "{:.1f} % > {:.1f} %",
                      place(target), fit.achieved_imbalance, fit.target_imbalance, 100 * fit.error(),
                      100 * options_.tolerance));
    }
    result_.fits.push_back(fit);
    result_.bias.insert(result_.bias.end(), found.bias.begin(), found.bias.end());
    const bool is_last = target.layer.next() == LayerId{config_.num_layers};
    return is_last ? Status{} : batch_.apply(target.layer, found.bias);
  }

  [[nodiscard]] double imbalance_of(std::span<const double> loads) const {
    const std::vector<double> ranks = compute_rank_loads(loads, identity_.layer(LayerId{0}), topology_);
    return compute_imbalance(ranks, topology_).max_over_mean();
  }

  const ModelConfig& config_;
  const Topology& topology_;
  const Placement& identity_;
  const CalibrationOptions& options_;
  ReplicatedWeights weights_;
  SampleBatch batch_;
  Calibration result_;
};

}  // namespace

double LayerFit::error() const noexcept { return std::abs(achieved_imbalance / target_imbalance - 1.0); }

Result<Calibration> calibrate(const ModelConfig& config, std::span<const LoadMatrix> phases,
                              const Topology& topology, const CalibrationOptions& options,
                              Executor& executor) {
  if (Status s = check_config(config); !s) return failure(std::move(s));
  if (Status s = check_shapes(config, phases); !s) return failure(std::move(s));
  const Result<Placement> identity = Placement::identity(1, topology.num_slots(), config.num_experts);
  if (!identity) return failure(Result<Placement>(identity));
  Calibrator calibrator(config, topology, *identity, options, executor);
  for (std::size_t p = 0; p < phases.size(); ++p) {
    if (Status s = calibrator.run_phase(static_cast<std::int32_t>(p), phases[p]); !s)
      return failure(std::move(s));
  }
  return calibrator.take();
}

}  // namespace trimtab::moe
