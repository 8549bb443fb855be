// SPDX-License-Identifier: Apache-2.0
#include "moe/text/model.hpp"

#include <trimtab/weights/safetensors.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>

namespace trimtab::moe {
namespace {

/// Beyond it an int32 may not hold offset times the sum of a row.
constexpr std::int32_t offset_limit = 128;

/// Reads tensors of one file by name; the first error stays.
class Reader {
 public:
  explicit Reader(const SafetensorsFile& file) : file_(file) {}

  [[nodiscard]] const Status& status() const noexcept { return status_; }
  [[nodiscard]] std::size_t num_read() const noexcept { return num_read_; }

  std::vector<float> reals(const std::string& name, std::vector<std::uint64_t> shape) {
    std::vector<float> out = read<float>(name, SafetensorsType::f32, std::move(shape));
    check(
        name, out, [](float value) { return std::isfinite(value); }, "is not finite");
    return out;
  }

  QuantisedMatrix matrix(const std::string& name, std::uint64_t channels, std::uint64_t inputs) {
    QuantisedMatrix out{read<std::int8_t>(name, SafetensorsType::i8, {channels, inputs}),
                        reals(name + "_scale", {channels}),
                        read<std::int32_t>(name + "_offset", SafetensorsType::i32, {channels})};
    check(
        name, out.q, [](int q) { return std::abs(q) <= weight_limit; }, "is not in -63..63");
    check(
        name + "_offset", out.offset, [](std::int64_t o) { return std::abs(o) <= offset_limit; },
        "is not in -128..128");
    return out;
  }

  FeedForward feed_forward(const std::string& prefix, std::uint64_t width, std::uint64_t inner) {
    QuantisedMatrix w13 = matrix(prefix + "w13", 2 * inner, width);
    return {std::move(w13), matrix(prefix + "w2", width, inner)};
  }

 private:
  template <class T>
  std::vector<T> read(const std::string& name, SafetensorsType type, std::vector<std::uint64_t> shape) {
    const SafetensorsTensor* tensor = status_ ? file_.find(name) : nullptr;
    if (tensor == nullptr) {
      refuse(fmt::format("tensor {} is missing", name));
      return {};
    }
    if (tensor->type != type || tensor->shape != shape) {
      refuse(fmt::format("tensor {} is {} [{}], not {} [{}]", name, to_string(tensor->type),
                         fmt::join(tensor->shape, ", "), to_string(type), fmt::join(shape, ", ")));
      return {};
    }
    std::vector<T> out(tensor->size_bytes() / sizeof(T));
    if (Status done = file_.read(*tensor, 0, std::as_writable_bytes(std::span(out))); !done) status_ = done;
    ++num_read_;
    return out;
  }

  template <class T, class Predicate>
  void check(const std::string& name, const std::vector<T>& values, Predicate fits, std::string_view what) {
    const auto wrong = std::find_if_not(values.begin(), values.end(), fits);
    if (wrong == values.end()) return;
    refuse(fmt::format("tensor {}: value {} at {} {}", name, *wrong, wrong - values.begin(), what));
  }

  void refuse(const std::string& why) {
    if (status_) status_ = failure(Errc::invalid_argument, file_.path() + ": " + why);
  }

  const SafetensorsFile& file_;
  Status status_;
  std::size_t num_read_ = 0;
};

TextLayer read_layer(Reader& reader, const TextConfig& config, std::int32_t index) {
  const auto width = static_cast<std::uint64_t>(config.width());
  const std::string prefix = fmt::format("model.layers.{}.", index);
  TextLayer layer;
  layer.attention_norm = reader.reals(prefix + "input_layernorm.weight", {width});
  layer.qkv = reader.matrix(prefix + "self_attn.qkv_proj", 3 * width, width);
  layer.out = reader.matrix(prefix + "self_attn.o_proj", width, width);
  layer.norm = reader.reals(prefix + "post_attention_layernorm.weight", {width});
  if (index < config.dense_layers) {
    layer.feed_forward =
        reader.feed_forward(prefix + "mlp.", width, static_cast<std::uint64_t>(config.dense_inner));
    return layer;
  }
  const std::uint64_t experts = config.experts.experts();
  layer.feed_forward = reader.feed_forward(prefix + "mlp.shared_experts.", width,
                                           static_cast<std::uint64_t>(config.shared_inner));
  layer.gate = reader.reals(prefix + "mlp.gate.weight", {experts, width});
  layer.bias = reader.reals(prefix + "mlp.gate.e_score_correction_bias", {experts});
  return layer;
}

std::size_t bytes_of(const QuantisedMatrix& matrix) noexcept {
  return matrix.q.size() + matrix.channels() * (sizeof(float) + sizeof(std::int32_t));
}

std::size_t bytes_of(const FeedForward& weights) noexcept {
  return bytes_of(weights.w13) + bytes_of(weights.w2);
}

void copy_matrix(const QuantisedMatrix& from, std::span<std::int8_t> q, std::span<float> scale,
                 std::span<std::int32_t> offset) noexcept {
  std::ranges::copy(from.q, q.begin());
  std::ranges::copy(from.scale, scale.begin());
  std::ranges::copy(from.offset, offset.begin());
}

}  // namespace

std::vector<float> TextModel::gate_bias() const {
  std::vector<float> bias;
  for (const TextLayer& layer : layers) bias.insert(bias.end(), layer.bias.begin(), layer.bias.end());
  return bias;
}

std::size_t TextModel::size_bytes() const noexcept {
  std::size_t floats = embedding.size() + norm.size() + head.size();
  std::size_t bytes = 0;
  for (const TextLayer& layer : layers) {
    floats += layer.attention_norm.size() + layer.norm.size() + layer.gate.size() + layer.bias.size();
    bytes += bytes_of(layer.qkv) + bytes_of(layer.out) + bytes_of(layer.feed_forward);
  }
  for (const FeedForward& expert : experts) bytes += bytes_of(expert);
  return bytes + floats * sizeof(float);
}

void TextModel::fill_expert(LayerId layer, ExpertId id, const Bundle& out) const noexcept {
  const FeedForward& weights = expert(layer, id);
  copy_matrix(weights.w13, out.w13, out.w13_scale, out.w13_offset);
  copy_matrix(weights.w2, out.w2, out.w2_scale, out.w2_offset);
}

void TextModel::fill_gate(LayerId layer, std::span<float> out) const noexcept {
  const std::vector<float>& gate = expert_layer(layer).gate;
  const std::size_t num_experts = config.experts.experts();
  for (std::size_t e = 0; e < num_experts; ++e) {
    for (std::size_t h = 0; h < config.width(); ++h) out[h * num_experts + e] = gate[e * config.width() + h];
  }
}

void TextModel::fill_norm(LayerId layer, std::span<float> out) const noexcept {
  std::ranges::copy(expert_layer(layer).norm, out.begin());
}

Result<TextModel> read_text_model(const std::string& folder) {
  const Result<SafetensorsFile> file = SafetensorsFile::open(folder + "/model.safetensors");
  if (!file) return tl::unexpected(file.error());
  const Result<TextConfig> config = read_text_config(file->metadata());
  if (!config) return failure(config.error().code, file->path() + ": " + config.error().message);
  TextModel model;
  model.config = *config;
  const auto width = static_cast<std::uint64_t>(config->width());
  const auto vocabulary = static_cast<std::uint64_t>(config->vocabulary);
  Reader reader(*file);
  model.embedding = reader.reals("model.embed_tokens.weight", {vocabulary, width});
  for (std::int32_t layer = 0; layer < config->num_layers(); ++layer)
    model.layers.push_back(read_layer(reader, *config, layer));
  for (std::int32_t layer = config->dense_layers; layer < config->num_layers(); ++layer) {
    for (std::int32_t expert = 0; expert < config->experts.num_experts && reader.status(); ++expert) {
      model.experts.push_back(reader.feed_forward(
          fmt::format("model.layers.{}.mlp.experts.{}.", layer, expert), width, config->experts.inner()));
    }
  }
  model.norm = reader.reals("model.norm.weight", {width});
  model.head = reader.reals("lm_head.weight", {vocabulary, width});
  if (!reader.status()) return tl::unexpected(reader.status().error());
  if (reader.num_read() != file->tensors().size()) {
    return failure(Errc::invalid_argument,
                   fmt::format("{}: {} tensors, but a model of this shape has {}", file->path(),
                               file->tensors().size(), reader.num_read()));
  }
  return model;
}

}  // namespace trimtab::moe
