// SPDX-License-Identifier: Apache-2.0
#include "app/commands.hpp"
#include "app/console.hpp"
#include "app/outputs.hpp"

#include <trimtab/transport/bootstrap.hpp>
#include <trimtab/transport/inproc.hpp>
#include <trimtab/transport/mpi.hpp>
#include <trimtab/transport/ucx.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <memory>
#include <string>
#include <vector>

namespace trimtab {
namespace {

using nlohmann::ordered_json;

/// What is known of one transport here.
struct Finding {
  std::string name;
  bool is_built = true;
  bool is_usable = false;
  std::string chosen_for;  ///< "" when it is not what trimtab would take by itself.
  std::string note;        ///< Why it is not usable, or what it would use.
};

constexpr bool has_mpi = TRIMTAB_HAS_MPI;
constexpr bool has_ucx = TRIMTAB_HAS_UCX;

Finding find_inproc() {
  const auto ends = make_inproc_transports(2);
  return {"inproc", true, ends.has_value(), "ranks as threads", ends ? "" : ends.error().message};
}

Finding find_mpi() {
  const Result<MpiSession> session = MpiSession::start();
  return {"mpi", has_mpi, session.has_value(), "", session ? "" : session.error().message};
}

Finding find_ucx(const Result<UcxReport>& report) {
  if (!report) return {"ucx", has_ucx, false, "", report.error().message};
  return {"ucx", has_ucx, true, "ranks as processes",
          fmt::format("UCX {}; with error handling, on this machine: {}", report->version,
                      fmt::join(report->lanes, ", "))};
}

/// "" when the system sets no limit.
std::string lock_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "";
  return fmt::format("{} bytes", limit.rlim_cur);
}

ordered_json bootstrap_document(const Result<std::optional<Bootstrap>>& found) {
  if (!found) return {{"found", false}, {"problem", found.error().message}};
  if (!*found) return {{"found", false}};
  const Bootstrap& bootstrap = **found;
  return {{"found", true},
          {"from", bootstrap.found_in},
          {"rank", bootstrap.rank.value()},
          {"num_ranks", bootstrap.num_ranks},
          {"address", bootstrap.host.empty() ? "" : fmt::format("{}:{}", bootstrap.host, bootstrap.port)}};
}

std::string bootstrap_text(const Result<std::optional<Bootstrap>>& found) {
  if (!found) return found.error().message;
  if (!*found) return "none in the environment (TRIMTAB_BOOTSTRAP, mpirun, torchrun, SLURM)";
  const Bootstrap& bootstrap = **found;
  return fmt::format("rank {} of {}, from {}, rank 0 at {}:{}", bootstrap.rank.value(), bootstrap.num_ranks,
                     bootstrap.found_in, bootstrap.host, bootstrap.port);
}

ordered_json transport_document(const Finding& finding) {
  ordered_json document{{"name", finding.name}, {"built", finding.is_built}, {"usable", finding.is_usable}};
  document["chosen_for"] =
      finding.chosen_for.empty() ? ordered_json(nullptr) : ordered_json(finding.chosen_for);
  document["note"] = finding.note;
  return document;
}

/// Processes have no shared memory: mpi is what is left to them without ucx.
std::vector<Finding> find_transports(const Result<UcxReport>& ucx) {
  std::vector<Finding> findings{find_inproc(), find_mpi(), find_ucx(ucx)};
  if (!findings[2].is_usable && findings[1].is_usable) findings[1].chosen_for = "ranks as processes";
  return findings;
}

std::string text_of(const std::vector<Finding>& findings, const Result<UcxReport>& ucx,
                    const Result<std::optional<Bootstrap>>& bootstrap) {
  std::string text =
      fmt::format("{:<10} {:<6} {:<7} {:<19} {}\n", "transport", "built", "usable", "chosen for", "");
  for (const Finding& one : findings) {
    text +=
        fmt::format("{:<10} {:<6} {:<7} {:<19} {}\n", one.name, one.is_built ? "yes" : "no",
                    one.is_usable ? "yes" : "no", one.chosen_for.empty() ? "-" : one.chosen_for, one.note);
  }
  if (ucx) text += fmt::format("ucx found:  {}\n", fmt::join(ucx->devices, ", "));
  text += fmt::format("bootstrap:  {}\n", bootstrap_text(bootstrap));
  const std::string limit = lock_limit();
  text += fmt::format("locked memory: {}\n",
                      limit.empty() ? "no limit" : limit + " at most, which RDMA devices count");
  return text;
}

ordered_json document_of(const std::vector<Finding>& findings, const Result<UcxReport>& ucx,
                         const Result<std::optional<Bootstrap>>& bootstrap) {
  ordered_json document{{"schema", "trimtab.doctor/1"}, {"transports", ordered_json::array()}};
  for (const Finding& one : findings) document["transports"].push_back(transport_document(one));
  document["ucx"] = nullptr;
  if (ucx) document["ucx"] = {{"version", ucx->version}, {"devices", ucx->devices}, {"lanes", ucx->lanes}};
  document["bootstrap"] = bootstrap_document(bootstrap);
  document["locked_memory_limit"] = lock_limit();
  return document;
}

Outcome doctor(const std::string& json) {
  const Result<UcxReport> ucx = probe_ucx();
  const auto bootstrap = find_bootstrap(process_environment());
  const std::vector<Finding> findings = find_transports(ucx);
  Outputs outputs;
  if (Status s = outputs.add(json, document_of(findings, ucx, bootstrap)); !s) return failure(std::move(s));
  if (Status s = outputs.commit(); !s) return failure(std::move(s));
  if (json != "-") print_data(text_of(findings, ucx, bootstrap));
  return ExitStatus::ok;
}

}  // namespace

CLI::App* add_doctor_command(CLI::App& app, Outcome& outcome) {
  CLI::App* const verb =
      app.add_subcommand("doctor", "Say which transports are built, usable here and chosen, and why.");
  const auto json = std::make_shared<std::string>();
  verb->add_option("--json", *json, "Write the findings to FILE, - for standard output")->type_name("FILE");
  verb->callback([json, &outcome] { outcome = doctor(*json); });
  return verb;
}

}  // namespace trimtab
