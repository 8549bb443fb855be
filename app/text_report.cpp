// SPDX-License-Identifier: Apache-2.0
#include "app/text_report.hpp"

#include "report/printable.hpp"

#include <fmt/format.h>

namespace trimtab {
namespace {

using nlohmann::ordered_json;

ordered_json bits_document(const std::array<double, 2>& bits) { return {{"off", bits[0]}, {"on", bits[1]}}; }

double megabytes(std::int64_t bytes) { return static_cast<double>(bytes) / 1e6; }

std::string bits_text(const std::array<double, 2>& bits) {
  if (bits[0] == bits[1]) return fmt::format("{:.4f}", bits[0]);
  return fmt::format("{:.4f} off, {:.4f} on", bits[0], bits[1]);
}

std::string sample_text(const moe::TextReport& report, const moe::TextSample& sample) {
  constexpr std::size_t columns = 42;
  return fmt::format("           {}: {} | {}\n", report.domains[sample.domain].name,
                     last_columns(sample.prompt, columns), last_columns(sample.said, columns));
}

}  // namespace

ordered_json text_document(const moe::ServiceOptions& service, const moe::TextReport& report) {
  const moe::TextTraffic& traffic = service.text->traffic;
  ordered_json document{{"prompt_bytes", traffic.prompt_bytes},
                        {"new_bytes", traffic.new_bytes},
                        {"temperature", traffic.sampling.temperature},
                        {"bits_per_byte", bits_document(report.bits_per_byte)},
                        {"prefilled", report.prefilled},
                        {"decoded", report.decoded},
                        {"model_bytes", report.model_bytes},
                        {"cache_bytes", report.cache_bytes}};
  document["domains"] = ordered_json::array();
  for (const moe::DomainReport& domain : report.domains) {
    document["domains"].push_back({{"name", as_utf8(domain.name)},
                                   {"requests", domain.requests},
                                   {"bytes", domain.bytes},
                                   {"bits_per_byte", bits_document(domain.bits_per_byte)}});
  }
  document["samples"] = ordered_json::array();
  for (const moe::TextSample& sample : report.samples) {
    document["samples"].push_back({{"domain", as_utf8(report.domains[sample.domain].name)},
                                   {"prompt", as_utf8(sample.prompt)},
                                   {"said", as_utf8(sample.said)}});
  }
  return document;
}

std::string text_text(const moe::TextReport& report) {
  std::string text =
      fmt::format("text       {} bits per byte of prompts; each arm read {} bytes and said {}\n",
                  bits_text(report.bits_per_byte), report.prefilled, report.decoded);
  for (const moe::DomainReport& domain : report.domains) {
    text += fmt::format("           {}: {} requests, {} bits per byte\n", domain.name, domain.requests,
                        bits_text(domain.bits_per_byte));
  }
  text += fmt::format("           weights {:.1f} MB, keys and values {:.1f} MB per rank and arm\n",
                      megabytes(report.model_bytes), megabytes(report.cache_bytes));
  if (!report.samples.empty()) text += "said       the last of each domain, prompt | continuation\n";
  for (const moe::TextSample& sample : report.samples) text += sample_text(report, sample);
  return text;
}

}  // namespace trimtab
