// SPDX-License-Identifier: Apache-2.0
// launch_ranks N PROGRAM ARGUMENTS…: runs N processes that meet by TRIMTAB_BOOTSTRAP. Ends when all have
// ended, with 1 when any failed.
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "transport/socket.hpp"

namespace {

using namespace trimtab;

void set(const char* name, const std::string& value) { setenv(name, value.c_str(), 1); }

/// A port for rank 0, which takes it a moment later: below those that the system gives to connections, for
/// one of another test could have it by then. 0: none.
int find_port() {
  constexpr int first = 10000;
  constexpr int end = 32768;
  for (int port = first + getpid() % 20000; port < end; ++port) {
    if (Socket::listen("127.0.0.1", static_cast<std::uint16_t>(port))) return port;
  }
  return 0;
}

[[noreturn]] void become(int rank, const char* num_ranks, int port, char** command) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  set("TRIMTAB_BOOTSTRAP", fmt::format("127.0.0.1:{}", port));
  set("TRIMTAB_RANK", fmt::format("{}", rank));
  set("TRIMTAB_NUM_RANKS", num_ranks);
  execv(command[0], command);
  std::perror(command[0]);
  _exit(127);
}

int launch(const char* num_ranks, char** command) {
  const int port = find_port();
  if (port == 0) return 1;
  for (int rank = 0; rank < std::strtol(num_ranks, nullptr, 10); ++rank) {
    if (fork() == 0) become(rank, num_ranks, port, command);
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
  return launch(argv[1], argv + 2);
}
