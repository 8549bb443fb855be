// SPDX-License-Identifier: Apache-2.0
#include "moe/text/attention.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "moe/gate.hpp"
#include "moe/lanes.hpp"

namespace trimtab::moe {
namespace {

constexpr std::size_t block = KvCache::block_positions;

/// Products of a query with the keys of one block, each over the head's width in ascending order.
void score_block(std::span<const float> query, const float* keys, float* out) noexcept {
  Lanes sums[2] = {};
  for (std::size_t i = 0; i < query.size(); ++i) {
    sums[0] += query[i] * load_lanes(keys + i * block);
    sums[1] += query[i] * load_lanes(keys + i * block + 4);
  }
  std::memcpy(out, sums, sizeof sums);
}

/// Scores become shares that still have to be divided by what is returned.
float exponentiate(std::span<float> scores) noexcept {
  const float largest = *std::ranges::max_element(scores);
  float sum = 0.0f;
  for (float& score : scores) {
    score = std::exp(score - largest);
    sum += score;
  }
  return sum;
}

/// Keys of one position into a block.
void put_keys(std::span<const float> head, std::size_t position, std::span<float> keys) noexcept {
  float* to = &keys[position / block * block * head.size() + position % block];
  for (std::size_t i = 0; i < head.size(); ++i) to[i * block] = head[i];
}

}  // namespace

Rotary::Rotary(const TextConfig& config) : half_(config.head_width() / 2) {
  for (std::size_t position = 0; position < config.positions(); ++position) {
    for (std::size_t i = 0; i < half_; ++i) {
      const double rate = std::pow(config.rope_base, -static_cast<double>(i) / static_cast<double>(half_));
      const double angle = static_cast<double>(position) * rate;
      cos_.push_back(static_cast<float>(std::cos(angle)));
      sin_.push_back(static_cast<float>(std::sin(angle)));
    }
  }
}

void Rotary::turn(std::size_t position, std::span<float> head) const noexcept {
  for (std::size_t i = 0; i < half_; ++i) {
    const float cos = cos_[position * half_ + i];
    const float sin = sin_[position * half_ + i];
    const float a = head[i];
    const float b = head[i + half_];
    head[i] = a * cos - b * sin;
    head[i + half_] = b * cos + a * sin;
  }
}

Attention::Attention(const TextModel& model, KvCache& cache)
    : model_(model), cache_(cache), rotary_(model.config), shares_(model.config.positions() + block) {}

Status Attention::run(std::size_t layer, std::span<const TextRow> rows, std::span<float> states) {
  const TextLayer& weights = model_.layers[layer];
  const std::size_t width = model_.config.width();
  normal_.resize(states.size());
  qkv_.resize(3 * states.size());
  context_.resize(states.size());
  out_.resize(states.size());
  for (std::size_t r = 0; r < rows.size(); ++r)
    rms_norm(states.subspan(r * width, width), weights.attention_norm,
             std::span(normal_).subspan(r * width, width));
  if (Status done = product_.run(weights.qkv, normal_, width, qkv_); !done) return done;
  for (std::size_t r = 0; r < rows.size(); ++r)
    store(layer, rows[r], std::span(qkv_).subspan(r * 3 * width, 3 * width));
  for (std::size_t r = 0; r < rows.size(); ++r) {
    attend(layer, rows[r], std::span(qkv_).subspan(r * 3 * width, width),
           std::span(context_).subspan(r * width, width));
  }
  if (Status done = product_.run(weights.out, context_, width, out_); !done) return done;
  for (std::size_t i = 0; i < states.size(); ++i) states[i] += out_[i];
  return {};
}

/// Turns queries and keys, and scales the queries, in place.
void Attention::store(std::size_t layer, const TextRow& row, std::span<float> qkv) noexcept {
  const std::size_t width = model_.config.width();
  const std::size_t head_width = model_.config.head_width();
  const float scale = 1.0f / std::sqrt(static_cast<float>(head_width));
  for (std::size_t head = 0; head < model_.config.num_heads(); ++head) {
    const auto query = qkv.subspan(head * head_width, head_width);
    const auto key = qkv.subspan(width + head * head_width, head_width);
    const auto value = qkv.subspan(2 * width + head * head_width, head_width);
    rotary_.turn(row.position, query);
    rotary_.turn(row.position, key);
    for (float& x : query) x *= scale;
    put_keys(key, row.position, cache_.keys(row.sequence, layer, head));
    std::ranges::copy(value,
                      cache_.values(row.sequence, layer, head).subspan(row.position * head_width).begin());
  }
}

void Attention::attend(std::size_t layer, const TextRow& row, std::span<const float> queries,
                       std::span<float> out) {
  const std::size_t head_width = model_.config.head_width();
  const std::size_t count = row.position + 1;
  for (std::size_t head = 0; head < model_.config.num_heads(); ++head) {
    const auto query = queries.subspan(head * head_width, head_width);
    const std::span<const float> keys = cache_.keys(row.sequence, layer, head);
    const std::span<const float> values = cache_.values(row.sequence, layer, head);
    for (std::size_t first = 0; first < count; first += block)
      score_block(query, &keys[first * head_width], &shares_[first]);
    const float inverse = 1.0f / exponentiate(std::span(shares_).first(count));
    const auto said = out.subspan(head * head_width, head_width);
    std::ranges::fill(said, 0.0f);
    for (std::size_t p = 0; p < count; ++p) {
      for (std::size_t i = 0; i < head_width; ++i) said[i] += shares_[p] * values[p * head_width + i];
    }
    for (float& x : said) x *= inverse;
  }
}

}  // namespace trimtab::moe
