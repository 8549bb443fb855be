// SPDX-License-Identifier: Apache-2.0
#include "moe/text/workload.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <string>
#include <utility>

#include "moe/text/reference.hpp"

namespace trimtab::moe {
namespace {

/// Of a rank: prefilled, decoded; then by domain requests, bytes, and the bits of both arms.
constexpr std::size_t numbers_before = 2;
constexpr std::size_t numbers_of_domain = 4;

double as_real(std::int64_t bits) noexcept { return std::bit_cast<double>(bits); }

/// Sums of bits become means.
void divide_by_bytes(TextReport& report) {
  std::int64_t bytes = 0;
  for (DomainReport& domain : report.domains) {
    bytes += domain.bytes;
    for (std::size_t arm = 0; arm < 2; ++arm) {
      report.bits_per_byte[arm] += domain.bits_per_byte[arm];
      domain.bits_per_byte[arm] /= static_cast<double>(std::max<std::int64_t>(1, domain.bytes));
    }
  }
  for (double& bits : report.bits_per_byte) bits /= static_cast<double>(std::max<std::int64_t>(1, bytes));
}

/// Ranks have recorded differently much, and a gathering takes equally much of each.
Status gather(const RecordedRows& mine, Members& members, RecordedRows& all) {
  const std::array<std::int64_t, 2> sizes{static_cast<std::int64_t>(mine.packed_size()),
                                          static_cast<std::int64_t>(mine.choice_size())};
  const Result<std::vector<std::int64_t>> all_sizes = members.gather(sizes);
  if (!all_sizes) return tl::unexpected(all_sizes.error());
  std::size_t packed = 0;
  std::size_t choice = 0;
  for (std::size_t i = 0; i < all_sizes->size(); i += 2) {
    packed = std::max(packed, static_cast<std::size_t>((*all_sizes)[i]));
    choice = std::max(choice, static_cast<std::size_t>((*all_sizes)[i + 1]));
  }
  const Result<std::vector<std::int64_t>> rows = members.gather(mine.pack(packed));
  if (!rows) return tl::unexpected(rows.error());
  for (std::size_t first = 0; first < rows->size(); first += packed)
    all.unpack(std::span(*rows).subspan(first, packed), choice);
  return {};
}

}  // namespace

TextWorkload::TextWorkload(const ServiceOptions& options, Rank rank)
    : options_(options), text_(*options.text) {
  for (auto& session : sessions_) {
    session = std::make_unique<TextSession>(text_.model, text_.traffic, rank,
                                            static_cast<std::size_t>(options.tokens_per_rank));
  }
}

void TextWorkload::finish(ArmId arm, std::uint64_t forward) {
  note_output(arm, forward, session(arm).finish());
  if (text_.is_recorded && arm == ArmId::on) recorded_.add(session(arm));
}

ServedTokens TextWorkload::take(ArmId arm) noexcept {
  const TextCounts& counts = session(arm).counts();
  ServedTokens now{.tokens = counts.prefilled + counts.decoded};
  for (const DomainCount& domain : counts.domains) {
    now.prompt_bytes += domain.bytes;
    now.bits += domain.bits;
  }
  const ServedTokens before = std::exchange(taken_[static_cast<std::size_t>(arm)], now);
  return {now.tokens - before.tokens, now.prompt_bytes - before.prompt_bytes, now.bits - before.bits};
}

bool TextWorkload::equals_reference() {
  const std::uint64_t most = options_.reference_batches;
  std::vector<TextAnswer> answers = session(ArmId::off).answers();
  if (answers.size() < most) std::ranges::move(session(ArmId::off).unfinished(), std::back_inserter(answers));
  const std::size_t count = std::min<std::size_t>(most, answers.size());
  bool equal = true;
  for (std::size_t i = 0; i < count; ++i) {
    const TextAnswer& answer = answers[(2 * i + 1) * answers.size() / (2 * count)];
    const TextAnswer expected =
        answer_by_reference(text_.model, text_.traffic, answer.request, answer.num_rows);
    equal = equal && answer.said == expected.said && answer.bits == expected.bits &&
            answer.digest == expected.digest;
    ++num_checked_;
  }
  return equal;
}

std::vector<std::int64_t> TextWorkload::counts() const {
  const TextCounts& off = session(ArmId::off).counts();
  const TextCounts& on = session(ArmId::on).counts();
  std::vector<std::int64_t> out{on.prefilled, on.decoded};
  for (std::size_t d = 0; d < on.domains.size(); ++d) {
    out.insert(out.end(),
               {on.domains[d].requests, on.domains[d].bytes, std::bit_cast<std::int64_t>(off.domains[d].bits),
                std::bit_cast<std::int64_t>(on.domains[d].bits)});
  }
  return out;
}

void TextWorkload::add_counts(std::span<const std::int64_t> counts_of_all, TextReport& report) const {
  const std::size_t num_domains = report.domains.size();
  const std::size_t size = numbers_before + num_domains * numbers_of_domain;
  for (; !counts_of_all.empty(); counts_of_all = counts_of_all.subspan(size)) {
    report.prefilled += counts_of_all[0];
    report.decoded += counts_of_all[1];
    for (std::size_t d = 0; d < num_domains; ++d) {
      const auto mine = counts_of_all.subspan(numbers_before + d * numbers_of_domain, numbers_of_domain);
      report.domains[d].requests += mine[0];
      report.domains[d].bytes += mine[1];
      for (std::size_t arm = 0; arm < 2; ++arm)
        report.domains[d].bits_per_byte[arm] += as_real(mine[2 + arm]);
    }
  }
}

Status TextWorkload::report(Members& members, ServiceReport& out) {
  const Result<std::vector<std::int64_t>> all = members.gather(counts());
  if (!all) return tl::unexpected(all.error());
  TextReport& report = out.text.emplace();
  for (const TextDomain& domain : text_.traffic.domains) report.domains.emplace_back().name = domain.name;
  add_counts(*all, report);
  divide_by_bytes(report);
  report.model_bytes = static_cast<std::int64_t>(text_.model.size_bytes());
  report.cache_bytes = static_cast<std::int64_t>(session(ArmId::on).cache_bytes());
  report.samples = samples();
  return text_.is_recorded ? gather(recorded_, members, report.recorded) : Status{};
}

std::vector<TextSample> TextWorkload::samples() const {
  std::vector<TextSample> samples;
  const std::vector<TextAnswer>& answers = session(ArmId::on).answers();
  for (std::size_t d = 0; d < text_.traffic.domains.size(); ++d) {
    const auto last = std::find_if(answers.rbegin(), answers.rend(),
                                   [d](const TextAnswer& answer) { return answer.request.domain == d; });
    if (last == answers.rend()) continue;
    samples.push_back({d, std::string(last->request.prompt.begin() + 1, last->request.prompt.end()),
                       std::string(last->said.begin(), last->said.end())});
  }
  return samples;
}

}  // namespace trimtab::moe
