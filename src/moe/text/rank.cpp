// SPDX-License-Identifier: Apache-2.0
#include "moe/text/rank.hpp"

#include <algorithm>
#include <bit>
#include <string>

#include "moe/text/reference.hpp"

namespace trimtab::moe {
namespace {

/// Of a rank: prefilled, decoded; then by domain requests, bytes, and the bits of both arms.
constexpr std::size_t numbers_before = 2;
constexpr std::size_t numbers_of_domain = 4;

double as_real(std::int64_t bits) noexcept { return std::bit_cast<double>(bits); }

}  // namespace

TextRank::TextRank(const TextService& service, Rank rank, std::size_t max_rows) : service_(service) {
  for (auto& session : sessions_)
    session = std::make_unique<TextSession>(service.model, service.traffic, rank, max_rows);
}

std::int64_t TextRank::take_rows(ArmId id) noexcept {
  const TextCounts& counts = session(id).counts();
  const std::int64_t before = rows_[static_cast<std::size_t>(id)];
  rows_[static_cast<std::size_t>(id)] = counts.prefilled + counts.decoded;
  return rows_[static_cast<std::size_t>(id)] - before;
}

bool TextRank::equals_reference(std::uint64_t most) {
  const std::vector<TextAnswer>& answers = session(ArmId::off).answers();
  const std::size_t count = std::min<std::size_t>(most, answers.size());
  bool equal = true;
  for (std::size_t i = 0; i < count; ++i) {
    const TextAnswer& answer = answers[(2 * i + 1) * answers.size() / (2 * count)];
    const TextAnswer expected = answer_by_reference(service_.model, service_.traffic, answer.request);
    equal = equal && answer.said == expected.said && answer.bits == expected.bits &&
            answer.digest == expected.digest;
    ++num_checked_;
  }
  return equal;
}

std::vector<std::int64_t> TextRank::counts() const {
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

TextReport TextRank::report(std::span<const std::int64_t> counts_of_all) const {
  const std::vector<TextDomain>& domains = service_.traffic.domains;
  TextReport report;
  report.domains.resize(domains.size());
  std::int64_t bytes = 0;
  const std::size_t size = numbers_before + domains.size() * numbers_of_domain;
  for (; !counts_of_all.empty(); counts_of_all = counts_of_all.subspan(size)) {
    report.prefilled += counts_of_all[0];
    report.decoded += counts_of_all[1];
    for (std::size_t d = 0; d < domains.size(); ++d) {
      const auto mine = counts_of_all.subspan(numbers_before + d * numbers_of_domain, numbers_of_domain);
      report.domains[d].requests += mine[0];
      report.domains[d].bytes += mine[1];
      for (std::size_t arm = 0; arm < 2; ++arm)
        report.domains[d].bits_per_byte[arm] += as_real(mine[2 + arm]);
    }
  }
  for (std::size_t d = 0; d < domains.size(); ++d) {
    DomainReport& domain = report.domains[d];
    domain.name = domains[d].name;
    bytes += domain.bytes;
    for (std::size_t arm = 0; arm < 2; ++arm) {
      report.bits_per_byte[arm] += domain.bits_per_byte[arm];
      domain.bits_per_byte[arm] /= static_cast<double>(std::max<std::int64_t>(1, domain.bytes));
    }
  }
  for (double& bits : report.bits_per_byte) bits /= static_cast<double>(std::max<std::int64_t>(1, bytes));
  report.model_bytes = static_cast<std::int64_t>(service_.model.size_bytes());
  report.cache_bytes = static_cast<std::int64_t>(session(ArmId::on).cache_bytes());
  report.samples = samples();
  return report;
}

std::vector<TextSample> TextRank::samples() const {
  std::vector<TextSample> samples;
  const std::vector<TextAnswer>& answers = session(ArmId::on).answers();
  for (std::size_t d = 0; d < service_.traffic.domains.size(); ++d) {
    const auto last = std::find_if(answers.rbegin(), answers.rend(),
                                   [d](const TextAnswer& answer) { return answer.request.domain == d; });
    if (last == answers.rend()) continue;
    samples.push_back({d, std::string(last->request.prompt.begin() + 1, last->request.prompt.end()),
                       std::string(last->said.begin(), last->said.end())});
  }
  return samples;
}

}  // namespace trimtab::moe
