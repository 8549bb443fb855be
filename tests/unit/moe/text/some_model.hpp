// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/weights/safetensors_writer.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "moe/text/model.hpp"
#include "moe/text/traffic.hpp"

namespace trimtab::moe {

inline TextConfig small_text() {
  TextConfig config;
  config.heads = 2;
  config.context = 24;
  config.dense_inner = 24;
  config.shared_inner = 8;
  config.experts = {.num_layers = 2,
                    .num_experts = 8,
                    .top_k = 2,
                    .hidden = 16,
                    .intermediate = 8,
                    .num_groups = 4,
                    .top_groups = 2};
  return config;
}

/// Draws weights of a size at which routes, attention and logits all vary.
class ModelMaker {
 public:
  explicit ModelMaker(TextConfig config) : config_(config) {}

  TextModel make() {
    TextModel model;
    model.config = config_;
    const std::size_t width = config_.width();
    model.embedding = reals(config_.tokens() * width, 1.0f);
    for (std::int32_t i = 0; i < config_.num_layers(); ++i)
      model.layers.push_back(layer(i < config_.dense_layers));
    for (std::size_t i = 0; i < config_.experts.layers() * config_.experts.experts(); ++i)
      model.experts.push_back(feed_forward(config_.experts.inner()));
    model.norm = reals(width, 1.0f);
    model.head = reals(config_.tokens() * width, 0.5f);
    return model;
  }

 private:
  std::vector<float> reals(std::size_t count, float size) {
    std::vector<float> out(count);
    for (float& x : out) x = size * std::uniform_real_distribution<float>(-1.0f, 1.0f)(random_);
    return out;
  }

  QuantisedMatrix matrix(std::size_t channels, std::size_t inputs) {
    QuantisedMatrix out;
    for (std::size_t i = 0; i < channels * inputs; ++i)
      out.q.push_back(static_cast<std::int8_t>(std::uniform_int_distribution<int>(-63, 63)(random_)));
    for (std::size_t i = 0; i < channels; ++i) {
      out.scale.push_back(std::uniform_real_distribution<float>(0.005f, 0.01f)(random_));
      out.offset.push_back(std::uniform_int_distribution<int>(-5, 5)(random_));
    }
    return out;
  }

  FeedForward feed_forward(std::size_t inner) {
    QuantisedMatrix w13 = matrix(2 * inner, config_.width());
    return {std::move(w13), matrix(config_.width(), inner)};
  }

  TextLayer layer(bool is_dense) {
    const std::size_t width = config_.width();
    TextLayer out;
    out.attention_norm = reals(width, 1.5f);
    out.qkv = matrix(3 * width, width);
    out.out = matrix(width, width);
    out.norm = reals(width, 1.5f);
    out.feed_forward =
        feed_forward(static_cast<std::size_t>(is_dense ? config_.dense_inner : config_.shared_inner));
    if (is_dense) return out;
    out.gate = reals(config_.experts.experts() * width, 0.5f);
    out.bias = reals(config_.experts.experts(), 0.1f);
    return out;
  }

  TextConfig config_;
  std::mt19937 random_{5};
};

inline TextModel some_text_model(const TextConfig& config = small_text()) {
  return ModelMaker(config).make();
}

inline TextTraffic some_traffic() {
  TextTraffic traffic;
  for (const std::string first : {"a", "A", "0"}) {
    const std::string name = "from " + first;
    TextDomain domain{name, name + ".txt", {}};
    for (int i = 0; i < 100; ++i) domain.text.push_back(static_cast<std::uint8_t>(first[0] + i * i % 10));
    traffic.domains.push_back(std::move(domain));
  }
  traffic.prompt_bytes = 9;
  traffic.new_bytes = 6;
  traffic.num_forwards = 40;
  return traffic;
}

/// A model as it lies in a file, tensor by tensor; tests spoil it before it is written.
struct ModelFile {
  struct Tensor {
    SafetensorsEntry entry;
    std::vector<std::byte> bytes;
  };

  explicit ModelFile(const TextModel& model);
  void write(const std::string& folder) const;
  Tensor& tensor(const std::string& name);

  SafetensorsMetadata metadata;
  std::vector<Tensor> tensors;

 private:
  template <class T>
  void add(const std::string& name, SafetensorsType type, std::vector<std::uint64_t> shape,
           const std::vector<T>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    tensors.push_back({{name, type, std::move(shape)}, {bytes.begin(), bytes.end()}});
  }
  void add(const std::string& name, const QuantisedMatrix& matrix) {
    const std::uint64_t channels = matrix.channels();
    add(name, SafetensorsType::i8, {channels, matrix.q.size() / channels}, matrix.q);
    add(name + "_scale", SafetensorsType::f32, {channels}, matrix.scale);
    add(name + "_offset", SafetensorsType::i32, {channels}, matrix.offset);
  }
  void add(const std::string& prefix, const FeedForward& weights) {
    add(prefix + "w13", weights.w13);
    add(prefix + "w2", weights.w2);
  }
  void add_layer(const TextModel& model, std::size_t index);
};

inline ModelFile::ModelFile(const TextModel& model) {
  const TextConfig& c = model.config;
  const auto number = [](auto value) { return fmt::format("{}", value); };
  metadata = {{"format", "trimtab.model/1"},
              {"weights", "w8a8"},
              {"vocabulary", number(c.vocabulary)},
              {"width", number(c.experts.hidden)},
              {"layers", number(c.num_layers())},
              {"dense_layers", number(c.dense_layers)},
              {"heads", number(c.heads)},
              {"context", number(c.context)},
              {"rope_base", number(c.rope_base)},
              {"dense_inner", number(c.dense_inner)},
              {"expert_inner", number(c.experts.intermediate)},
              {"shared_inner", number(c.shared_inner)},
              {"experts", number(c.experts.num_experts)},
              {"groups", number(c.experts.num_groups)},
              {"top_groups", number(c.experts.top_groups)},
              {"top_k", number(c.experts.top_k)},
              {"norm_epsilon", "1e-06"}};
  const std::uint64_t width = c.width();
  add("model.embed_tokens.weight", SafetensorsType::f32, {c.tokens(), width}, model.embedding);
  for (std::size_t i = 0; i < model.layers.size(); ++i) add_layer(model, i);
  add("model.norm.weight", SafetensorsType::f32, {width}, model.norm);
  add("lm_head.weight", SafetensorsType::f32, {c.tokens(), width}, model.head);
}

inline void ModelFile::add_layer(const TextModel& model, std::size_t index) {
  const TextConfig& c = model.config;
  const TextLayer& layer = model.layers[index];
  const std::string prefix = fmt::format("model.layers.{}.", index);
  add(prefix + "input_layernorm.weight", SafetensorsType::f32, {c.width()}, layer.attention_norm);
  add(prefix + "self_attn.qkv_proj", layer.qkv);
  add(prefix + "self_attn.o_proj", layer.out);
  add(prefix + "post_attention_layernorm.weight", SafetensorsType::f32, {c.width()}, layer.norm);
  const auto dense = static_cast<std::size_t>(c.dense_layers);
  if (index < dense) return add(prefix + "mlp.", layer.feed_forward);
  const std::size_t experts = c.experts.experts();
  add(prefix + "mlp.shared_experts.", layer.feed_forward);
  add(prefix + "mlp.gate.weight", SafetensorsType::f32, {experts, c.width()}, layer.gate);
  add(prefix + "mlp.gate.e_score_correction_bias", SafetensorsType::f32, {experts}, layer.bias);
  for (std::size_t e = 0; e < experts; ++e)
    add(prefix + fmt::format("mlp.experts.{}.", e), model.experts[(index - dense) * experts + e]);
}

inline ModelFile::Tensor& ModelFile::tensor(const std::string& name) {
  for (Tensor& tensor : tensors) {
    if (tensor.entry.name == name) return tensor;
  }
  ADD_FAILURE() << name;
  return tensors.front();
}

inline void ModelFile::write(const std::string& folder) const {
  std::vector<SafetensorsEntry> entries;
  for (const Tensor& tensor : tensors) entries.push_back(tensor.entry);
  Result<SafetensorsWriter> writer =
      SafetensorsWriter::create(folder + "/model.safetensors", std::move(entries), metadata);
  ASSERT_TRUE(writer.has_value());
  for (const Tensor& tensor : tensors) ASSERT_TRUE(writer->append(tensor.bytes).has_value());
  ASSERT_TRUE(writer->commit().has_value());
}

}  // namespace trimtab::moe
