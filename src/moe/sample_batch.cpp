// SPDX-License-Identifier: Apache-2.0
#include "moe/sample_batch.hpp"

#include <algorithm>

#include "moe/expert_buffer.hpp"
#include "moe/expert_kernel.hpp"
#include "moe/gemm.hpp"
#include "moe/token_stream.hpp"

namespace trimtab::moe {
namespace {

/// Fixed, so that results do not depend on the number of threads.
constexpr std::size_t chunk_tokens = 128;
constexpr std::size_t chunk_experts = 8;

std::size_t num_chunks(std::size_t size, std::size_t chunk) noexcept { return (size + chunk - 1) / chunk; }

}  // namespace

SampleBatch::SampleBatch(const ModelConfig& config, const ReplicatedWeights& weights, std::size_t num_tokens,
                         Executor& executor)
    : config_(config),
      weights_(weights),
      executor_(executor),
      num_tokens_(num_tokens),
      states_(num_tokens * config.width()),
      normal_(states_.size()),
      scores_(num_tokens * config.experts()),
      quantised_(states_.size()),
      scales_(num_tokens),
      experts_(num_tokens * config.choices()),
      combine_(experts_.size()),
      outputs_(experts_.size() * config.width()) {}

void SampleBatch::for_each_token_chunk(
    const std::function<void(std::size_t chunk, std::size_t first, std::size_t last)>& work) {
  executor_.for_each_index(num_chunks(num_tokens_, chunk_tokens), [&](std::size_t chunk) {
    work(chunk, chunk * chunk_tokens, std::min(num_tokens_, (chunk + 1) * chunk_tokens));
  });
}

std::span<const float> SampleBatch::scores_of(std::size_t token) const noexcept {
  return std::span(scores_).subspan(token * config_.experts(), config_.experts());
}

void SampleBatch::restart() {
  for_each_token_chunk([&](std::size_t, std::size_t first, std::size_t last) {
    const std::size_t width = config_.width();
    fill_tokens(config_, calibration_forward, Rank{0}, first,
                std::span(states_).subspan(first * width, (last - first) * width));
  });
}

void SampleBatch::score(LayerId layer) {
  const std::size_t width = config_.width();
  for_each_token_chunk([&](std::size_t, std::size_t first, std::size_t last) {
    for (std::size_t t = first; t < last; ++t) {
      const auto normal = std::span(normal_).subspan(t * width, width);
      rms_norm(std::span(states_).subspan(t * width, width), weights_.norm(layer), normal);
      scales_[t] = quantise_row(normal, std::span(quantised_).subspan(t * width, width));
    }
    gate_scores(config_, std::span(normal_).subspan(first * width, (last - first) * width),
                weights_.gate(layer),
                std::span(scores_).subspan(first * config_.experts(), (last - first) * config_.experts()));
  });
}

void SampleBatch::count_choices(std::span<const float> bias, std::span<std::int64_t> counts) {
  const std::size_t experts = config_.experts();
  std::vector<std::int32_t> by_chunk(num_chunks(num_tokens_, chunk_tokens) * experts, 0);
  for_each_token_chunk([&](std::size_t chunk, std::size_t first, std::size_t last) {
    ExpertChooser chooser(config_);
    std::vector<ExpertId> chosen(config_.choices());
    for (std::size_t t = first; t < last; ++t) {
      chooser.choose(scores_of(t), bias, chosen);
      for (const ExpertId expert : chosen) ++by_chunk[chunk * experts + expert.index()];
    }
  });
  std::fill(counts.begin(), counts.end(), 0);
  for (std::size_t i = 0; i < by_chunk.size(); ++i) counts[i % experts] += by_chunk[i];
}

void SampleBatch::choose(std::span<const float> bias) {
  const std::size_t top_k = config_.choices();
  for_each_token_chunk([&](std::size_t, std::size_t first, std::size_t last) {
    ExpertChooser chooser(config_);
    for (std::size_t t = first; t < last; ++t) {
      chooser.choose(scores_of(t), bias, std::span(experts_).subspan(t * top_k, top_k),
                     std::span(combine_).subspan(t * top_k, top_k));
    }
  });
}

Status SampleBatch::apply(LayerId layer, std::span<const float> bias) {
  choose(bias);
  const std::size_t experts = config_.experts();
  std::vector<Status> done(num_chunks(experts, chunk_experts));
  executor_.for_each_index(done.size(), [&](std::size_t chunk) {
    done[chunk] = run_experts(layer, chunk * chunk_experts, std::min(experts, (chunk + 1) * chunk_experts));
  });
  for (Status& status : done) {
    if (!status) return std::move(status);
  }
  combine();
  return {};
}

Status SampleBatch::run_experts(LayerId layer, std::size_t first, std::size_t last) {
  use_one_gemm_thread();
  const std::size_t width = config_.width();
  ExpertKernel kernel(config_);
  ExpertBuffer expert(config_);
  std::vector<std::int8_t> values;
  std::vector<RowScale> scales;
  std::vector<float*> out;
  for (std::size_t e = first; e < last; ++e) {
    values.clear();
    scales.clear();
    out.clear();
    for (std::size_t i = 0; i < experts_.size(); ++i) {
      if (experts_[i].index() != e) continue;
      const std::size_t token = i / config_.choices();
      const auto row = std::span(quantised_).subspan(token * width, width);
      values.insert(values.end(), row.begin(), row.end());
      scales.push_back(scales_[token]);
      out.push_back(&outputs_[i * width]);
    }
    if (out.empty()) continue;
    generate_expert(config_, layer, ExpertId{static_cast<std::int32_t>(e)}, expert.bundle());
    if (Status ran = kernel.run(as_const(expert.bundle()), {values, scales, out}); !ran) return ran;
  }
  return {};
}

void SampleBatch::combine() {
  const std::size_t top_k = config_.choices();
  const std::size_t width = config_.width();
  for_each_token_chunk([&](std::size_t, std::size_t first, std::size_t last) {
    std::vector<const float*> outputs(top_k);
    for (std::size_t t = first; t < last; ++t) {
      for (std::size_t k = 0; k < top_k; ++k) outputs[k] = &outputs_[(t * top_k + k) * width];
      combine_token(std::span(combine_).subspan(t * top_k, top_k), outputs,
                    std::span(states_).subspan(t * width, width));
    }
  });
}

}  // namespace trimtab::moe
