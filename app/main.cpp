// SPDX-License-Identifier: Apache-2.0
#include "app/commands.hpp"
#include "app/console.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <new>
#include <string>

namespace trimtab {
namespace {

int to_int(ExitStatus status) { return static_cast<int>(status); }

// Outputs are put in place by a rename, so there is nothing to undo.
void exit_interrupted(int /*signal*/) { ::_exit(to_int(ExitStatus::interrupted)); }

/// "trimtab plan" once a verb was given.
std::string name_of(const CLI::App& app) {
  const auto verbs = app.get_subcommands();
  return verbs.empty() ? "trimtab" : "trimtab " + verbs.front()->get_name();
}

int report_parse_result(const CLI::App& app, const CLI::ParseError& result) {
  if (result.get_exit_code() == 0) return app.exit(result);  // --help and --version
  const std::string name = name_of(app);
  print_error(name, fmt::format("{} (see {} --help)", result.what(), name));
  return to_int(ExitStatus::usage);
}

int run(int argc, char** argv) {
  Outcome outcome = ExitStatus::ok;
  CLI::App app("Keeps the experts of a Mixture-of-Experts service even over its devices.", "trimtab");
  app.footer(exit_status_help());
  app.set_version_flag("--version", "trimtab " TRIMTAB_VERSION);
  app.require_subcommand(0, 1);  // None is told apart below from one that does not exist.
  add_run_command(app, outcome);
  add_plan_command(app, outcome);
  add_split_command(app, outcome);
  add_diff_command(app, outcome);
  add_inspect_command(app, outcome);
  add_generate_command(app, outcome);
  add_verify_command(app, outcome);
  add_doctor_command(app, outcome);
  try {
    app.parse(argc, argv);
    if (app.get_subcommands().empty()) usage_error("a verb is required");
  } catch (const CLI::ParseError& result) {
    return report_parse_result(app, result);
  }
  if (std::fflush(stdout) != 0) outcome = failure(Errc::io, "standard output: cannot be written");
  if (outcome) return to_int(*outcome);
  print_error(name_of(app), outcome.error().message);
  return to_int(exit_status_of(outcome.error().code));
}

}  // namespace
}  // namespace trimtab

int main(int argc, char** argv) {
  std::signal(SIGINT, trimtab::exit_interrupted);
  try {
    return trimtab::run(argc, argv);
  } catch (const std::bad_alloc&) {
    trimtab::print_error("trimtab", "out of memory");
    return static_cast<int>(trimtab::ExitStatus::infeasible);
  }
}
