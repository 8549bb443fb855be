// SPDX-License-Identifier: Apache-2.0
//
// The model that is shipped, beside what PyTorch says of it (tests/golden/make_model_logits.py).
#include <trimtab/transport/inproc.hpp>
#include <trimtab/weights/safetensors.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "moe/executor.hpp"
#include "moe/forward_runner.hpp"
#include "moe/gemm.hpp"
#include "moe/text/layers.hpp"

namespace trimtab::moe {
namespace {

/// What the model says of one text, a forward for all of it, and the experts it chooses.
class OneRank final : public AroundExperts {
 public:
  explicit OneRank(const TextModel& model)
      : model_(model),
        config_(model.config.experts),
        topology_(*Topology::make_uniform(1, 1, config_.num_experts)),
        placement_(*Placement::identity(config_.num_layers, config_.num_experts, config_.num_experts)),
        table_(*RoutingTable::compile(placement_, topology_, {Epoch{0}, 0})),
        channel_(*make_inproc_transports(1)),
        weights_(config_, model),
        memory_(config_, topology_.slots_of(Rank{0})),
        layers_(model, 1, model.config.positions()),
        choices_(config_.layers()) {
    use_one_gemm_thread();
    EXPECT_TRUE(memory_.load(placement_, model).has_value());
  }

  /// [bytes][vocabulary]
  std::vector<float> logits_of(std::span<const std::uint8_t> bytes) {
    ExecutorParts parts{*channel_[0], topology_, weights_, memory_, nullptr, clock_};
    parts.around = this;
    const auto runner = *make_forward_runner(false, {.config = config_, .max_tokens = bytes.size()}, parts);
    std::vector<TextRow> rows;
    for (std::size_t p = 0; p < bytes.size(); ++p) rows.push_back({0, p});
    std::vector<float> states(bytes.size() * config_.width());
    layers_.begin(rows, bytes, states);
    EXPECT_TRUE(runner->forward(Forward{0}, states, model_.gate_bias(), table_).has_value());
    const std::span<const float> logits = layers_.finish(states);
    return {logits.begin(), logits.end()};
  }
  /// Experts of one position, best first.
  [[nodiscard]] std::span<const ExpertId> choices(LayerId layer, std::size_t position) const {
    return std::span(choices_[layer.index()]).subspan(position * config_.choices(), config_.choices());
  }

  Status before(LayerId layer, std::span<float> states) override { return layers_.before(layer, states); }
  Status beside(LayerId layer, const GateStage& gate, std::span<float> states) override {
    choices_[layer.index()].assign(gate.experts().begin(), gate.experts().end());
    return layers_.beside(layer, gate, states);
  }

 private:
  const TextModel& model_;
  const ModelConfig& config_;
  Topology topology_;
  Placement placement_;
  RoutingTable table_;
  std::vector<std::unique_ptr<Transport>> channel_;
  ReplicatedWeights weights_;
  ExpertMemory memory_;
  SteadyClock clock_;
  TextLayers layers_;
  std::vector<std::vector<ExpertId>> choices_;  ///< [layers][positions][top_k]
};

class GoldenModel : public testing::Test {
 protected:
  template <class T>
  [[nodiscard]] std::vector<T> values(const std::string& name) const {
    const SafetensorsTensor* tensor = golden_.find(name);
    EXPECT_NE(tensor, nullptr) << name;
    std::vector<T> out(tensor->size_bytes() / sizeof(T));
    std::memcpy(out.data(), golden_.bytes(*tensor).data(), tensor->size_bytes());
    return out;
  }
  [[nodiscard]] std::size_t num_texts() const { return golden_.find("ids")->shape[0]; }
  [[nodiscard]] std::vector<std::uint8_t> bytes_of(std::size_t text) const {
    const auto all = values<std::int32_t>("ids");
    const std::size_t length = golden_.find("ids")->shape[1];
    std::vector<std::uint8_t> bytes;
    for (std::size_t p = 0; p < length; ++p)
      bytes.push_back(static_cast<std::uint8_t>(all[text * length + p]));
    return bytes;
  }

  SafetensorsFile golden_ =
      SafetensorsFile::open(TRIMTAB_SOURCE_DIR "/tests/golden/model_logits.safetensors").value();
  TextModel model_ = read_text_model(TRIMTAB_SOURCE_DIR "/models/small").value();
};

/// Root of the mean square of differences, and the largest.
class Differences {
 public:
  void add(std::span<const float> one, std::span<const float> other) {
    for (std::size_t i = 0; i < one.size(); ++i) {
      const double difference = static_cast<double>(one[i]) - static_cast<double>(other[i]);
      squares_ += difference * difference;
      largest_ = std::max(largest_, std::abs(difference));
    }
    count_ += static_cast<double>(one.size());
  }
  [[nodiscard]] double root_mean_square() const { return std::sqrt(squares_ / count_); }
  [[nodiscard]] double largest() const { return largest_; }

 private:
  double squares_ = 0.0;
  double count_ = 0.0;
  double largest_ = 0.0;
};

// PyTorch computes in float64 what the program computes in float32. A number next to a tie is then rounded to
// another integer, and what follows differs by more than floats do: about as much as with PyTorch's own
// float32, or as without integers. Where little was rounded before, only floats differ.
TEST_F(GoldenModel, SaysWhatPyTorchSays) {
  const auto positions = values<std::int32_t>("positions");
  const auto expected = values<float>("logits");
  const auto in_float32 = values<float>("float32_logits");
  const auto not_quantised = values<float>("float_logits");
  const std::size_t vocabulary = model_.config.tokens();
  Differences first;
  Differences ours;
  Differences of_float32;
  Differences of_quantising;
  for (std::size_t text = 0; text < num_texts(); ++text) {
    OneRank rank(model_);
    const std::vector<float> logits = rank.logits_of(bytes_of(text));
    for (std::size_t i = 0; i < positions.size(); ++i) {
      const auto position = static_cast<std::size_t>(positions[i]);
      const auto said = std::span(logits).subspan(position * vocabulary, vocabulary);
      const std::size_t row = (text * positions.size() + i) * vocabulary;
      const auto golden = std::span(expected).subspan(row, vocabulary);
      (position == 0 ? first : ours).add(said, golden);
      if (position == 0) continue;
      of_float32.add(std::span(in_float32).subspan(row, vocabulary), golden);
      of_quantising.add(std::span(not_quantised).subspan(row, vocabulary), golden);
    }
  }
  RecordProperty("ours", fmt::format("{:.2e} {:.2e}", ours.root_mean_square(), ours.largest()));
  RecordProperty("float32",
                 fmt::format("{:.2e} {:.2e}", of_float32.root_mean_square(), of_float32.largest()));
  EXPECT_LT(first.largest(), 1e-4);
  EXPECT_LT(ours.root_mean_square(),
            2.0 * std::max(of_float32.root_mean_square(), of_quantising.root_mean_square()));
  EXPECT_LT(ours.largest(), 2.0 * std::max(of_float32.largest(), of_quantising.largest()));
}

TEST_F(GoldenModel, AsksTheExpertsThatPyTorchAsks) {
  const auto positions = values<std::int32_t>("positions");
  const auto expected = values<std::int32_t>("chosen");
  std::size_t next = 0;
  std::size_t num_equal = 0;
  for (std::size_t text = 0; text < num_texts(); ++text) {
    OneRank rank(model_);
    rank.logits_of(bytes_of(text));
    for (const std::int32_t position : positions) {
      for (const LayerId layer : ids<LayerId>(model_.config.experts.num_layers)) {
        for (const ExpertId expert : rank.choices(layer, static_cast<std::size_t>(position)))
          num_equal += expert.value() == expected[next++] ? 1U : 0U;
      }
    }
  }
  EXPECT_EQ(next, expected.size());
  EXPECT_GE(num_equal * 100, next * 98);
}

}  // namespace
}  // namespace trimtab::moe
