// SPDX-License-Identifier: Apache-2.0
#include "app/run_record.hpp"

#include "io/trace_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

namespace trimtab {
namespace {

/// What a trace may be called; a file's name may be anything.
std::string plain_name(std::string name) {
  constexpr std::size_t longest = 50;
  const auto is_plain = [](unsigned char c) {
    return c < 0x80 && (std::isalnum(c) != 0 || c == '.' || c == '_' || c == '+' || c == '-');
  };
  std::ranges::replace_if(
      name, [&](char c) { return !is_plain(static_cast<unsigned char>(c)); }, '-');
  name = name.substr(0, longest);
  return name.empty() || name[0] == '.' ? "text" + name : name;
}

/// By domain; a number behind those that would have a name that is taken.
std::vector<std::string> names_of(const std::vector<moe::TextDomain>& domains) {
  std::vector<std::string> names;
  for (const moe::TextDomain& domain : domains) {
    const std::string plain = plain_name(domain.name);
    std::string name = plain;
    for (int i = 2; std::ranges::find(names, name) != names.end(); ++i) name = fmt::format("{}-{}", plain, i);
    names.push_back(name);
  }
  return names;
}

TraceInfo info_of(const RunOptions& options, const moe::TextConfig& config, const std::string& domain) {
  const std::filesystem::path folder = std::filesystem::absolute(options.model).lexically_normal();
  TraceInfo info;
  info.model = plain_name((folder.has_filename() ? folder : folder.parent_path()).filename().string());
  info.domain = domain;
  info.num_experts = config.experts.num_experts;
  info.num_groups = config.experts.num_groups;
  info.top_k = config.experts.top_k;
  info.num_layers = config.num_layers();
  for (std::int32_t layer = config.dense_layers; layer < info.num_layers; ++layer)
    info.layers.emplace_back(layer);
  return info;
}

/// Rows of one domain, in order; requests are numbered as they come.
Status append_rows(const moe::RecordedRows& rows, std::size_t domain, TraceWriter& writer) {
  std::map<std::uint64_t, std::uint32_t> numbers;
  const std::size_t size = rows.choice_size();
  for (std::size_t row = 0; row < rows.origins.size(); ++row) {
    const moe::RowOrigin& origin = rows.origins[row];
    if (origin.domain != domain) continue;
    const auto number = numbers.try_emplace(origin.request, static_cast<std::uint32_t>(numbers.size())).first;
    const TraceToken token{origin.is_prompt ? TracePhase::prefill : TracePhase::decode, number->second,
                           static_cast<std::uint32_t>(origin.position)};
    if (Status added = writer.append({&token, 1}, std::span(rows.choices).subspan(row * size, size)); !added)
      return added;
  }
  return {};
}

}  // namespace

Status write_recorded(const RunOptions& options, const moe::TextService& text,
                      const moe::RecordedRows& rows) {
  std::error_code failed;
  std::filesystem::create_directories(options.record, failed);
  if (failed) return failure(Errc::io, fmt::format("{}: {}", options.record, failed.message()));
  const std::vector<std::string> names = names_of(text.traffic.domains);
  for (std::size_t domain = 0; domain < names.size(); ++domain) {
    if (std::ranges::find(rows.origins, domain, &moe::RowOrigin::domain) == rows.origins.end()) continue;
    const std::string path = fmt::format("{}/{}.trace", options.record, names[domain]);
    Result<TraceWriter> writer =
        TraceWriter::create(path, info_of(options, text.model.config, names[domain]));
    if (!writer) return failure(std::move(writer));
    if (Status appended = append_rows(rows, domain, *writer); !appended) return appended;
    if (Status committed = writer->commit(); !committed) return committed;
  }
  return {};
}

}  // namespace trimtab
