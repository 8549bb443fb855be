// SPDX-License-Identifier: Apache-2.0
#include "app/verify_report.hpp"

#include "report/table.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trimtab {
namespace {

using nlohmann::ordered_json;
using verify::MutantReport;
using verify::TrialCounts;
using verify::Violation;

/// A campaign of thousands of cases that all fail says no more than its first few.
constexpr std::size_t max_listed = 10;

bool is_caught(const MutantReport& mutant) { return mutant.violation.has_value(); }

std::string replay(const Violation& violation, const VerifyResult& result) {
  std::string command =
      fmt::format("trimtab verify {}", replay_arguments(violation.seed, result.options.cases));
  if (result.transport == "inproc") return command;
  if (result.transport == "ucx") return command + " --transport ucx";
  return fmt::format("mpirun -n {} {} --transport {}", *result.options.cases.ranks, command,
                     result.transport);
}

ordered_json violation_document(const Violation& violation, const VerifyResult& result) {
  return {{"check", to_string(violation.check)},
          {"seed", violation.seed},
          {"what", violation.what},
          {"replay", replay(violation, result)}};
}

ordered_json mutant_document(const MutantReport& mutant) {
  ordered_json document{{"mutant", to_string(mutant.mutant)}, {"cases", mutant.num_cases}};
  document["caught_by"] =
      is_caught(mutant) ? ordered_json(to_string(mutant.violation->check)) : ordered_json();
  document["seed"] = is_caught(mutant) ? ordered_json(mutant.violation->seed) : ordered_json();
  return document;
}

std::string mutants_text(const VerifyResult& result) {
  Table table;
  table.add_column("mutant", Table::Align::left);
  table.add_column("caught by", Table::Align::left);
  table.add_column("cases");
  table.add_column("replay", Table::Align::left);
  for (const MutantReport& mutant : result.mutants) {
    const std::string command =
        is_caught(mutant)
            ? fmt::format("{} --mutant {}", replay(*mutant.violation, result), to_string(mutant.mutant))
            : std::string("NOT CAUGHT");
    table.add_row({std::string(to_string(mutant.mutant)),
                   is_caught(mutant) ? std::string(to_string(mutant.violation->check)) : "-",
                   std::to_string(mutant.num_cases), command});
  }
  return table.to_string();
}

}  // namespace

std::size_t VerifyResult::mutants_caught() const noexcept {
  return static_cast<std::size_t>(std::ranges::count_if(mutants, is_caught));
}

bool VerifyResult::is_sound() const noexcept {
  return campaign.violations.empty() && mutants_caught() == mutants.size();
}

ordered_json verify_document(const VerifyResult& result) {
  const TrialCounts& counts = result.campaign.counts;
  ordered_json document;
  document["schema"] = "trimtab.verify/1";
  document["transport"] = result.transport;
  document["cases"] = result.options.num_cases;
  document["programs"] = counts.programs;
  document["faults_injected"] = counts.faults_injected;
  document["committed"] = counts.committed;
  document["rolled_back"] = counts.rolled_back;
  document["in_doubt"] = counts.in_doubt;
  document["in_doubt_resolved"] = counts.in_doubt_resolved;
  document["kills"] = counts.kills;
  document["stops"] = counts.stops;
  document["cuts"] = counts.cuts;
  document["views"] = counts.views;
  document["violations"] = result.campaign.violations.size();
  document["mutants"] = result.mutants.size();
  document["mutants_caught"] = result.mutants_caught();
  document["corrupted"] = counts.corrupted;
  document["corrupted_detected"] = counts.corrupted_detected;
  document["bytes_moved"] = counts.bytes_moved;
  document["bytes_lower_bound"] = counts.bytes_lower_bound;
  document["staging_peak_bytes"] = counts.staging_peak_bytes;
  document["staging_budget_bytes"] = counts.staging_budget_bytes;
  document["seconds"] = result.seconds;
  document["failed_checks"] = ordered_json::array();
  for (std::size_t i = 0; i < std::min(max_listed, result.campaign.violations.size()); ++i)
    document["failed_checks"].push_back(violation_document(result.campaign.violations[i], result));
  document["mutant_trials"] = ordered_json::array();
  for (const MutantReport& mutant : result.mutants)
    document["mutant_trials"].push_back(mutant_document(mutant));
  return document;
}

std::string verify_text(const VerifyResult& result) {
  const TrialCounts& counts = result.campaign.counts;
  std::string text = fmt::format(
      "programs    {} in {} cases over {}, {} faults struck: {} committed, {} rolled back, {} left a rank in "
      "doubt\n"
      "bytes       {} moved between ranks, lower bound {}\n"
      "staging     at most {} of {} bytes\n"
      "corruption  {} of {} damaged payloads were found before the vote\n",
      counts.programs, result.options.num_cases, result.transport, counts.faults_injected, counts.committed,
      counts.rolled_back, counts.in_doubt, counts.bytes_moved, counts.bytes_lower_bound,
      counts.staging_peak_bytes, counts.staging_budget_bytes, counts.corrupted_detected, counts.corrupted);
  if (!result.mutants.empty())
    text += fmt::format("mutants     {} of {} caught\n", result.mutants_caught(), result.mutants.size());
  text += fmt::format("violations  {} ({:.1f} s)\n", result.campaign.violations.size(), result.seconds);
  for (std::size_t i = 0; i < std::min(max_listed, result.campaign.violations.size()); ++i)
    text += violation_text(result.campaign.violations[i], result);
  if (!result.mutants.empty()) text += '\n' + mutants_text(result);
  return text;
}

std::string violation_text(const Violation& violation, const VerifyResult& result) {
  return fmt::format("VIOLATION {}; replay: {}\n", to_string(violation), replay(violation, result));
}

}  // namespace trimtab
