// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "moe/text/layers.hpp"
#include "moe/text/model.hpp"
#include "moe/text/traffic.hpp"

namespace trimtab::moe {

/// What became of a request.
struct TextAnswer {
  TextRequest request{};
  std::vector<std::uint8_t> said{};  ///< As many as the traffic wants, once it is done.
  double bits = 0.0;                 ///< What the model needs to say the prompt, its first byte 0 excepted.
  std::uint64_t digest = 0;          ///< Of all its logits, in order.
};

/// What a rank has served of one domain.
struct DomainCount {
  std::int64_t requests = 0;  ///< Done.
  std::int64_t bytes = 0;     ///< Of prompts that went through the model.
  double bits = 0.0;          ///< What the model needed to say them.
};

struct TextCounts {
  std::vector<DomainCount> domains;
  std::vector<std::int64_t> heat;  ///< [domains][expert layers][experts]: assignments.
  std::int64_t prefilled = 0;      ///< Rows that were bytes of prompts,
  std::int64_t decoded = 0;        ///< and rows that were said before.
};

/// What a row of a forward was.
struct RowOrigin {
  std::uint64_t request = 0;
  std::size_t domain = 0;
  std::size_t position = 0;
  bool is_prompt = true;
};

/// The requests that one rank serves, one arm's: takes in new ones, puts the rows of each forward together
/// (prompts in pieces, beside one byte of each sequence that is being continued), and chooses bytes. What it
/// does is a function of traffic, rank and the model's outputs. One thread.
class TextSession final : public AroundExperts {
 public:
  /// Borrows both. Up to `max_rows` go through a forward.
  TextSession(const TextModel& model, const TextTraffic& traffic, Rank rank, std::size_t max_rows);

  /// The rows of the next forward as states, [rows][width], to be served in place.
  std::span<float> begin(Forward forward);
  /// After the forward. @return the checksum of its outputs.
  std::uint64_t finish();

  Status before(LayerId layer, std::span<float> states) override;
  Status beside(LayerId layer, const GateStage& gate, std::span<float> states) override;

  /// Of the forward that was served last: where its rows belong, and the experts chosen for them,
  /// [rows][top_k], best first.
  [[nodiscard]] std::span<const RowOrigin> origins() const noexcept { return origins_; }
  [[nodiscard]] std::span<const ExpertId> choices(LayerId layer) const noexcept {
    return choices_[layer.index()];
  }

  [[nodiscard]] const TextCounts& counts() const noexcept { return counts_; }
  /// The oldest request whose answer is under way; null when there is none.
  [[nodiscard]] const TextAnswer* being_said() const noexcept;
  [[nodiscard]] const TextTraffic& traffic() const noexcept { return traffic_; }
  [[nodiscard]] const ModelConfig& experts() const noexcept { return config_.experts; }
  /// In the order in which they were done.
  [[nodiscard]] const std::vector<TextAnswer>& answers() const noexcept { return answers_; }
  [[nodiscard]] std::size_t cache_bytes() const noexcept { return layers_.cache_bytes(); }

 private:
  struct Sequence {
    TextAnswer answer;
    std::size_t place = 0;     ///< In the cache.
    std::size_t position = 0;  ///< Of the next row.
    std::size_t num_rows = 0;  ///< In this forward.
  };

  [[nodiscard]] static std::uint8_t byte_at(const Sequence& sequence, std::size_t position) noexcept;
  [[nodiscard]] static bool is_prefilling(const Sequence& sequence) noexcept;
  void take_rows(Sequence& sequence, std::size_t count);
  void admit(Forward forward);
  void finish_row(Sequence& sequence, std::span<const float> logits);
  void finish_rows(std::span<const float> logits);
  void count_heat();
  void retire();

  const TextTraffic& traffic_;
  Rank rank_;
  std::size_t max_rows_;
  const TextConfig& config_;
  TextLayers layers_;
  std::vector<Sequence> active_;   ///< In order of arrival.
  std::vector<std::size_t> free_;  ///< Places in the cache.
  std::uint64_t num_requests_ = 0;
  std::vector<TextRow> rows_;
  std::vector<RowOrigin> origins_;              ///< [rows]
  std::vector<std::uint8_t> bytes_;             ///< [rows]
  std::vector<float> states_;                   ///< [rows][width]
  std::vector<std::vector<ExpertId>> choices_;  ///< [expert layers][rows][top_k]
  TextCounts counts_;
  std::vector<TextAnswer> answers_;
};

/// Sequences that keep `max_rows` rows busy.
[[nodiscard]] std::size_t sequences_for(const TextTraffic& traffic, std::size_t max_rows) noexcept;

}  // namespace trimtab::moe
