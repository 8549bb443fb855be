// SPDX-License-Identifier: Apache-2.0
#include <trimtab/transport/bootstrap.hpp>

#include "transport/socket.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <limits>

namespace trimtab {
namespace {

/// Reads whole numbers, and keeps the first thing that was wrong.
class Variables {
 public:
  explicit Variables(const Environment& environment) : environment_(environment) {}

  [[nodiscard]] bool has(const char* name) const { return environment_(name) != nullptr; }
  [[nodiscard]] std::string text(const char* name) const {
    const char* const value = environment_(name);
    return value != nullptr ? value : "";
  }

  std::int32_t number(const char* name, std::int32_t low, std::int32_t high) {
    if (!has(name)) return wrong(fmt::format("{} is not set", name));
    const std::string value = text(name);
    std::int32_t number = 0;
    const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), number);
    const bool is_number = code == std::errc() && end == value.data() + value.size();
    if (!is_number || number < low || number > high)
      return wrong(fmt::format("{}={} is not a whole number in {}..{}", name, value, low, high));
    return number;
  }

  std::int32_t wrong(std::string problem) {
    if (problem_.empty()) problem_ = std::move(problem);
    return 0;
  }
  [[nodiscard]] const std::string& problem() const noexcept { return problem_; }

 private:
  const Environment& environment_;
  std::string problem_;
};

constexpr std::int32_t most_ranks = 1 << 20;
constexpr std::int32_t most_port = std::numeric_limits<std::uint16_t>::max();

struct Launcher {
  const char* name;
  const char* rank;
  const char* num_ranks;
  std::array<const char*, 2> job;
};

// In this order: torchrun may be started by SLURM, and a person's own variables mean more than a launcher's.
constexpr std::array launchers = {
    Launcher{"TRIMTAB_RANK", "TRIMTAB_RANK", "TRIMTAB_NUM_RANKS", {"TRIMTAB_JOB", "TRIMTAB_JOB"}},
    Launcher{"mpirun",
             "OMPI_COMM_WORLD_RANK",
             "OMPI_COMM_WORLD_SIZE",
             {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}},
    Launcher{"torchrun", "RANK", "WORLD_SIZE", {"TORCHELASTIC_RUN_ID", "MASTER_PORT"}},
    Launcher{"slurm", "SLURM_PROCID", "SLURM_NTASKS", {"SLURM_JOB_ID", "SLURM_JOBID"}},
};

// Above the ports that services use and below those that systems hand out.
std::uint16_t port_of_job(std::string_view job) {
  constexpr std::uint32_t first = 20'000;
  constexpr std::uint32_t num_ports = 12'000;
  std::uint32_t hash = 2166136261U;
  for (char c : job) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return static_cast<std::uint16_t>(first + hash % num_ports);
}

void set_address(Bootstrap& bootstrap, std::string_view address, Variables& variables) {
  const std::size_t colon = address.rfind(':');
  const std::string_view port = colon == std::string_view::npos ? "" : address.substr(colon + 1);
  std::int32_t number = 0;
  const auto [end, code] = std::from_chars(port.data(), port.data() + port.size(), number);
  const bool is_number = code == std::errc() && end == port.data() + port.size();
  if (colon == 0 || !is_number || number < 1 || number > most_port) {
    variables.wrong(
        fmt::format("TRIMTAB_BOOTSTRAP={} is not host:port with a port in 1..{}", address, most_port));
    return;
  }
  std::string_view host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  bootstrap.host = host;
  bootstrap.port = static_cast<std::uint16_t>(number);
}

/// "node[03-04,7],other" -> "node03"
std::string first_node(std::string_view list) {
  const std::size_t bracket = list.find('[');
  const std::size_t comma = list.find(',');
  if (bracket == std::string_view::npos || comma < bracket) return std::string(list.substr(0, comma));
  const std::string_view numbers = list.substr(bracket + 1);
  return fmt::format("{}{}", list.substr(0, bracket), numbers.substr(0, numbers.find_first_of("-,]")));
}

void set_torchrun_address(Bootstrap& bootstrap, Variables& variables) {
  bootstrap.host = variables.text("MASTER_ADDR");
  if (bootstrap.host.empty()) variables.wrong("MASTER_ADDR is not set");
  bootstrap.port = static_cast<std::uint16_t>(variables.number("MASTER_PORT", 1, most_port - 1) + 1);
}

void set_slurm_address(Bootstrap& bootstrap, Variables& variables) {
  const char* const list =
      variables.has("SLURM_STEP_NODELIST") ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST";
  bootstrap.host = first_node(variables.text(list));
  if (bootstrap.host.empty())
    variables.wrong(fmt::format("{} is not set; TRIMTAB_BOOTSTRAP=host:port replaces it", list));
  bootstrap.port = port_of_job(bootstrap.job);
}

void set_mpirun_address(Bootstrap& bootstrap, Variables& variables) {
  const bool is_one_host =
      variables.text("OMPI_COMM_WORLD_LOCAL_SIZE") == variables.text("OMPI_COMM_WORLD_SIZE");
  if (!is_one_host || bootstrap.job.empty()) {
    variables.wrong(
        "TRIMTAB_BOOTSTRAP is not set: under an mpirun over several hosts it must be host:port of rank 0");
  }
  bootstrap.host = "127.0.0.1";
  bootstrap.port = port_of_job(bootstrap.job);
}

void set_default_address(Bootstrap& bootstrap, Variables& variables) {
  if (bootstrap.found_in == "mpirun") return set_mpirun_address(bootstrap, variables);
  if (bootstrap.found_in == "torchrun") return set_torchrun_address(bootstrap, variables);
  if (bootstrap.found_in == "slurm") return set_slurm_address(bootstrap, variables);
  if (bootstrap.num_ranks > 1)
    variables.wrong("TRIMTAB_BOOTSTRAP is not set: it must be host:port of rank 0");
}

std::string job_of(const Launcher& launcher, const Variables& variables) {
  for (const char* name : {"TRIMTAB_JOB", launcher.job[0], launcher.job[1]}) {
    if (variables.has(name)) return variables.text(name);
  }
  return "";
}

Bootstrap read(const Launcher& launcher, Variables& variables) {
  Bootstrap found;
  found.found_in = launcher.name;
  found.num_ranks = variables.number(launcher.num_ranks, 1, most_ranks);
  found.rank = Rank{variables.number(launcher.rank, 0, std::max(found.num_ranks, 1) - 1)};
  found.job = job_of(launcher, variables);
  if (variables.has("TRIMTAB_BOOTSTRAP")) {
    set_address(found, variables.text("TRIMTAB_BOOTSTRAP"), variables);
  } else {
    set_default_address(found, variables);
  }
  return found;
}

}  // namespace

Environment process_environment() {
  return [](const char* name) { return std::getenv(name); };
}

Result<std::optional<Bootstrap>> find_bootstrap(const Environment& environment) {
  Variables variables(environment);
  const auto is_set = [&](const Launcher& one) {
    return variables.has(one.rank) || variables.has(one.num_ranks);
  };
  const auto* const launcher = std::ranges::find_if(launchers, is_set);
  if (launcher == launchers.end()) {
    if (!variables.has("TRIMTAB_BOOTSTRAP")) return std::optional<Bootstrap>();
    return failure(
        Errc::invalid_argument,
        "bootstrap: TRIMTAB_BOOTSTRAP is set, but neither TRIMTAB_RANK nor a launcher says who this is");
  }
  Bootstrap found = read(*launcher, variables);
  if (!variables.problem().empty())
    return failure(Errc::invalid_argument, "bootstrap: " + variables.problem());
  return std::optional(std::move(found));
}

Result<std::vector<Bootstrap>> make_local_bootstraps(std::int32_t num_ranks) {
  if (num_ranks < 1)
    return failure(Errc::invalid_argument, fmt::format("bootstrap: {} ranks < 1", num_ranks));
  Result<Socket> listening = Socket::listen("127.0.0.1", 0);
  if (!listening) return failure(std::move(listening));
  Bootstrap common;
  common.num_ranks = num_ranks;
  common.host = "127.0.0.1";
  common.port = listening->local_port();
  common.found_in = "this program";
  std::vector<Bootstrap> ranks(static_cast<std::size_t>(num_ranks), common);
  for (Rank rank : ids<Rank>(num_ranks)) ranks[rank.index()].rank = rank;
  ranks.front().listening = std::make_shared<Socket>(std::move(*listening));
  return ranks;
}

}  // namespace trimtab
