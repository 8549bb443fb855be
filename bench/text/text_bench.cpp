// SPDX-License-Identifier: Apache-2.0
//
// The small model's bytes per second: the runtime on one rank, beside the same model without anything that
// balances. Logits of both are compared, bit for bit.
#include <trimtab/transport/inproc.hpp>

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "moe/executor.hpp"
#include "moe/gemm.hpp"
#include "moe/text/layers.hpp"
#include "registered_main.hpp"
#include "text/plain_model.hpp"

namespace trimtab::bench {
namespace {

constexpr std::size_t max_rows = 255;
constexpr std::int32_t num_slots = 36;  ///< 32 experts and four replicas.

/// The model, and what serves it on one rank.
struct Served {
  Served() {
    moe::use_one_gemm_thread();
    if (!memory.load(placement, model)) std::abort();
  }

  const moe::TextModel model = moe::read_text_model(TRIMTAB_SMALL_MODEL).value();
  const moe::ModelConfig config = model.config.experts;
  const Topology topology = *Topology::make_uniform(1, 1, num_slots);
  const Placement placement = *Placement::identity(config.num_layers, num_slots, config.num_experts);
  const RoutingTable table = *RoutingTable::compile(placement, topology, {Epoch{0}, 0});
  const std::vector<std::unique_ptr<Transport>> channel = *make_inproc_transports(1);
  const moe::ReplicatedWeights weights{config, model};
  moe::ExpertMemory memory{config, topology.slots_of(Rank{0})};
  const SteadyClock clock;
  const std::vector<float> bias = model.gate_bias();
};

/// Rows of a forward: `count` positions from `first` of each of some sequences of the same text.
struct Batch {
  Batch(std::size_t num_sequences, std::size_t first, std::size_t count) : sequences(num_sequences) {
    std::ifstream file(TRIMTAB_SMALL_MODEL "/prompts/english.txt", std::ios::binary);
    std::vector<std::uint8_t> text{moe::begin_byte};
    text.insert(text.end(), std::istreambuf_iterator<char>(file), {});
    for (std::size_t s = 0; s < num_sequences; ++s) {
      for (std::size_t p = first; p < first + count; ++p) {
        rows.push_back({s, p});
        bytes.push_back(text.at(p));
      }
    }
  }
  std::size_t sequences;
  std::vector<moe::TextRow> rows;
  std::vector<std::uint8_t> bytes;
};

using Logits = std::vector<float>;

/// Serves a batch again and again, with the same keys and values before it.
class Server {
 public:
  explicit Server(Served& served, std::size_t sequences, bool is_plain)
      : served_(served),
        layers_(served.model, sequences, served.model.config.positions()),
        plain_(served.model, served.weights, max_rows) {
    if (is_plain) return;
    moe::ExecutorParts parts{.channel = *served.channel[0],
                             .topology = served.topology,
                             .weights = served.weights,
                             .memory = served.memory,
                             .clock = served.clock};
    parts.around = &layers_;
    executor_ = *moe::RankExecutor::make({.config = served.config, .max_tokens = max_rows}, parts);
  }

  Logits serve(const Batch& batch) {
    states_.resize(batch.rows.size() * served_.config.width());
    layers_.begin(batch.rows, batch.bytes, states_);
    if (executor_ == nullptr) {
      plain_.forward(layers_, states_);
    } else if (!executor_->forward(Forward{0}, states_, served_.bias, served_.table)) {
      std::abort();
    }
    const std::span<const float> logits = layers_.finish(states_);
    return {logits.begin(), logits.end()};
  }
  [[nodiscard]] std::size_t cache_bytes() const { return layers_.cache_bytes(); }

 private:
  Served& served_;
  moe::TextLayers layers_;
  PlainModel plain_;
  std::unique_ptr<moe::RankExecutor> executor_;  ///< Null: plain.
  std::vector<float> states_;
};

/// What comes before `batch`, one position of all sequences after the other, then `batch` itself.
Logits read_up_to(Server& server, const Batch& batch) {
  for (std::size_t p = 0; p < batch.rows.front().position; ++p) server.serve({batch.sequences, p, 1});
  return server.serve(batch);
}

void serve(benchmark::State& state, bool is_plain, const Batch& batch) {
  Served served;
  Server server(served, batch.sequences, is_plain);
  Server other(served, batch.sequences, !is_plain);
  if (read_up_to(server, batch) != read_up_to(other, batch)) return state.SkipWithError("logits differ");
  for (auto _ : state) benchmark::DoNotOptimize(server.serve(batch));
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(batch.rows.size()));
  state.counters["model_mb"] = static_cast<double>(served.model.size_bytes()) / 1e6;
  state.counters["cache_mb"] = static_cast<double>(server.cache_bytes()) / 1e6;
}

void add(const std::string& name, std::size_t sequences, std::size_t first, std::size_t count) {
  for (const bool is_plain : {false, true}) {
    benchmark::RegisterBenchmark((name + (is_plain ? "/twin" : "")).c_str(), [=](benchmark::State& state) {
      serve(state, is_plain, Batch(sequences, first, count));
    })->Unit(benchmark::kMicrosecond);
  }
}

void register_all() {
  for (const std::size_t count : {64U, 255U})
    add("text/prefill " + std::to_string(count) + " bytes", 1, 0, count);
  for (const std::size_t sequences : {1U, 8U, 64U})
    add("text/decode " + std::to_string(sequences) + " sequences", sequences, 127, 1);
}

}  // namespace
}  // namespace trimtab::bench

int main(int argc, char** argv) {
  return trimtab::bench::run_registered(argc, argv, trimtab::bench::register_all);
}
