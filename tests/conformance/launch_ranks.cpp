// SPDX-License-Identifier: Apache-2.0
// launch_ranks N PROGRAM ARGUMENTS…: runs N processes that meet by TRIMTAB_BOOTSTRAP. Ends when all have
// ended, with 1 when any failed.
#include <trimtab/transport/bootstrap.hpp>

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

using namespace trimtab;

void set(const char* name, const std::string& value) { setenv(name, value.c_str(), 1); }

[[noreturn]] void become(const Bootstrap& rank, char** command) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  set("TRIMTAB_BOOTSTRAP", fmt::format("{}:{}", rank.host, rank.port));
  set("TRIMTAB_RANK", fmt::format("{}", rank.rank.value()));
  set("TRIMTAB_NUM_RANKS", fmt::format("{}", rank.num_ranks));
  execv(command[0], command);
  std::perror(command[0]);
  _exit(127);
}

int launch(std::int32_t num_ranks, char** command) {
  // Only to find a port that is free; rank 0 takes it a moment later.
  auto ranks = make_local_bootstraps(num_ranks);
  if (!ranks) return 1;
  for (Bootstrap& rank : *ranks) rank.listening.reset();
  for (const Bootstrap& rank : *ranks) {
    if (fork() == 0) become(rank, command);
  }
  int result = 0;
  int status = 0;
  while (wait(&status) > 0) {
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) result = 1;
  }
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  return launch(static_cast<std::int32_t>(std::strtol(argv[1], nullptr, 10)), argv + 2);
}
