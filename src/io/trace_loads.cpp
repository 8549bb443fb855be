// SPDX-License-Identifier: Apache-2.0
#include "io/trace_loads.hpp"

#include <trimtab/core/assert.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <unordered_set>
#include <utility>

namespace trimtab {
namespace {

constexpr std::uint64_t max_loads = 100'000'000;

/// Counts tokens into windows.
class Folding {
 public:
  Folding(const TraceInfo& info, const TraceFold& fold)
      : info_(info),
        phase_(fold.phase),
        window_(fold.window.value_or(std::numeric_limits<std::uint64_t>::max())),
        counts_(num_loads(info)) {}

  static std::size_t num_loads(const TraceInfo& info) {
    return static_cast<std::size_t>(info.num_layers) * static_cast<std::size_t>(info.num_experts);
  }

  void add(const TraceBatch& batch) {
    const ExpertId* choice = batch.experts.data();
    for (const TraceToken& token : batch.tokens) {
      if (!phase_ || token.phase == *phase_) add_token(token, choice);
      choice += info_.choice_size();
    }
  }

  TraceLoads finish() && {
    if (num_in_window_ > 0) end_window();
    loads_.num_requests = requests_.size();
    return std::move(loads_);
  }

 private:
  void add_token(const TraceToken& token, const ExpertId* choice) {
    for (LayerId layer : info_.layers) {
      double* row = counts_.data() + layer.index() * static_cast<std::size_t>(info_.num_experts);
      for (std::int32_t k = 0; k < info_.top_k; ++k) row[choice++->index()] += 1.0;
    }
    requests_.insert(token.request);
    ++loads_.num_tokens;
    if (token.phase == TracePhase::prefill) ++loads_.num_prefill;
    if (++num_in_window_ == window_) end_window();
  }

  void end_window() {
    auto made = LoadMatrix::make(info_.num_layers, info_.num_experts, counts_);
    TRIMTAB_ASSERT(made.has_value());
    loads_.steps.push_back(*std::move(made));
    std::ranges::fill(counts_, 0.0);
    num_in_window_ = 0;
  }

  const TraceInfo& info_;
  std::optional<TracePhase> phase_;
  std::uint64_t window_;
  std::vector<double> counts_;
  std::uint64_t num_in_window_ = 0;
  std::unordered_set<std::uint32_t> requests_;
  TraceLoads loads_;
};

tl::unexpected<Error> bad(const TraceFile& trace, const std::string& problem) {
  return failure(Errc::invalid_argument, fmt::format("{}: {}", trace.path(), problem));
}

Status check_windows(const TraceFile& trace, std::uint64_t window) {
  const std::uint64_t steps = (trace.num_tokens() - 1) / window + 1;
  const std::uint64_t loads = Folding::num_loads(trace.info());
  if (steps <= max_loads / loads) return {};
  return bad(trace, fmt::format("{} tokens in windows of {} are {} steps of {} loads > {}",
                                trace.num_tokens(), window, steps, loads, max_loads));
}

}  // namespace

LoadMatrix TraceLoads::total() const {
  const LoadMatrix& first = steps.front();
  std::vector<double> sums;
  for (LayerId layer : ids<LayerId>(first.num_layers())) {
    for (std::int32_t e = 0; e < first.num_experts(); ++e) {
      double& sum = sums.emplace_back(0.0);
      for (const LoadMatrix& step : steps) sum += step.layer(layer)[static_cast<std::size_t>(e)];
    }
  }
  Result<LoadMatrix> made = LoadMatrix::make(first.num_layers(), first.num_experts(), std::move(sums));
  TRIMTAB_ASSERT(made.has_value());
  return *std::move(made);
}

Result<TraceLoads> fold_trace(const TraceFile& trace, const TraceFold& fold, const ReadProgress& progress) {
  if (fold.window) {
    if (Status fits = check_windows(trace, *fold.window); !fits) return failure(std::move(fits));
  }
  Folding folding(trace.info(), fold);
  Status done = trace.scan([&](const TraceBatch& batch) { folding.add(batch); }, progress);
  if (!done) return failure(std::move(done));
  TraceLoads loads = std::move(folding).finish();
  if (loads.num_tokens > 0) return loads;
  return bad(trace, fmt::format("none of its {} tokens is of the phase {}", trace.num_tokens(),
                                to_string(*fold.phase)));
}

}  // namespace trimtab
