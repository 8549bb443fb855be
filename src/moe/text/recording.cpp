// SPDX-License-Identifier: Apache-2.0
#include "moe/text/recording.hpp"

#include <algorithm>

namespace trimtab::moe {
namespace {

/// Experts have 16 bits: ModelConfig allows no more.
constexpr std::size_t ids_in_word = 4;
constexpr std::size_t words_of_origin = 2;

std::size_t words_of_row(std::size_t choice_size) noexcept {
  return words_of_origin + (choice_size + ids_in_word - 1) / ids_in_word;
}

std::int64_t pack_origin(const RowOrigin& origin) noexcept {
  return static_cast<std::int64_t>(origin.position << 32 | origin.domain << 1 | (origin.is_prompt ? 1U : 0U));
}

RowOrigin unpack_origin(std::int64_t request, std::int64_t packed) noexcept {
  const auto bits = static_cast<std::uint64_t>(packed);
  return {static_cast<std::uint64_t>(request), (bits & 0xffffffffU) >> 1, bits >> 32, (bits & 1U) != 0};
}

}  // namespace

void RecordedRows::add(const TextSession& session) {
  const auto top_k = session.experts().choices();
  for (std::size_t row = 0; row < session.origins().size(); ++row) {
    origins.push_back(session.origins()[row]);
    for (const LayerId layer : ids<LayerId>(session.experts().num_layers)) {
      const auto chosen = session.choices(layer).subspan(row * top_k, top_k);
      choices.insert(choices.end(), chosen.begin(), chosen.end());
    }
  }
}

std::size_t RecordedRows::choice_size() const noexcept {
  return origins.empty() ? 0 : choices.size() / origins.size();
}

std::size_t RecordedRows::packed_size() const noexcept {
  return 1 + origins.size() * words_of_row(choice_size());
}

std::vector<std::int64_t> RecordedRows::pack(std::size_t size) const {
  std::vector<std::int64_t> out{static_cast<std::int64_t>(origins.size())};
  const std::size_t choice = choice_size();
  for (std::size_t row = 0; row < origins.size(); ++row) {
    out.push_back(static_cast<std::int64_t>(origins[row].request));
    out.push_back(pack_origin(origins[row]));
    for (std::size_t first = 0; first < choice; first += ids_in_word) {
      std::uint64_t word = 0;
      for (std::size_t i = first; i < std::min(choice, first + ids_in_word); ++i)
        word |= static_cast<std::uint64_t>(choices[row * choice + i].value()) << (16 * (i - first));
      out.push_back(static_cast<std::int64_t>(word));
    }
  }
  out.resize(std::max(out.size(), size));
  return out;
}

void RecordedRows::unpack(std::span<const std::int64_t> packed, std::size_t choice_size) {
  const auto rows = static_cast<std::size_t>(packed[0]);
  for (std::size_t row = 0; row < rows; ++row) {
    const auto words = packed.subspan(1 + row * words_of_row(choice_size), words_of_row(choice_size));
    origins.push_back(unpack_origin(words[0], words[1]));
    for (std::size_t i = 0; i < choice_size; ++i) {
      const auto word = static_cast<std::uint64_t>(words[words_of_origin + i / ids_in_word]);
      choices.emplace_back(static_cast<std::int32_t>(word >> (16 * (i % ids_in_word)) & 0xffffU));
    }
  }
}

}  // namespace trimtab::moe
