// SPDX-License-Identifier: Apache-2.0
#include "app/forked_ranks.hpp"

#include <fmt/format.h>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

namespace trimtab {
namespace {

/// What a rank tells before it ends; longer text is cut. Fits a pipe, so that telling never blocks.
struct Ending {
  std::int32_t status = 0;
  std::uint32_t code = 0;  ///< An Errc, or 0.
  std::array<char, 2040> text{};
};

struct Child {
  pid_t process = -1;
  int pipe = -1;
  std::optional<Outcome> outcome;  ///< None: killed.
  int signal = 0;
};

Error system_error(const char* what) {
  return Error{Errc::io, fmt::format("{}: {}", what, std::strerror(errno))};
}

[[noreturn]] void run_child(int pipe, const Bootstrap& bootstrap, const RankBody& body, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) std::_Exit(EXIT_FAILURE);
  const Outcome outcome = body(bootstrap);
  Ending ending;
  if (outcome) {
    ending.status = static_cast<std::int32_t>(*outcome);
  } else {
    ending.code = static_cast<std::uint32_t>(outcome.error().code);
    outcome.error().message.copy(ending.text.data(), ending.text.size() - 1);
  }
  const bool is_told = std::fflush(stdout) == 0 && write(pipe, &ending, sizeof ending) == sizeof ending;
  std::_Exit(is_told ? EXIT_SUCCESS : EXIT_FAILURE);
}

Result<Child> start(const Bootstrap& bootstrap, const RankBody& body) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) return tl::unexpected(system_error("pipe"));
  const pid_t parent = getpid();
  const pid_t process = fork();
  if (process == 0) {
    close(ends[0]);
    run_child(ends[1], bootstrap, body, parent);
  }
  close(ends[1]);
  if (process > 0) return Child{process, ends[0], std::nullopt, 0};
  close(ends[0]);
  return tl::unexpected(system_error("fork"));
}

/// Waits for the child's end.
void finish(Child& child) {
  Ending ending;
  ssize_t size = 0;
  do size = read(child.pipe, &ending, sizeof ending);
  while (size < 0 && errno == EINTR);
  close(child.pipe);
  int status = 0;
  while (waitpid(child.process, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) child.signal = WTERMSIG(status);
  if (size != sizeof ending) return;
  if (ending.code == 0) {
    child.outcome = static_cast<ExitStatus>(ending.status);
  } else {
    child.outcome = failure(static_cast<Errc>(ending.code), ending.text.data());
  }
}

/// Who lost a peer, or waited for one in vain, only tells of another's failure.
bool is_cause(const Child& child) {
  if (!child.outcome || *child.outcome) return false;
  const Errc code = child.outcome->error().code;
  return code != Errc::peer_lost && code != Errc::timeout;
}

Outcome settle(const std::vector<Child>& children, const std::function<bool(Rank)>& may_die) {
  if (const auto cause = std::ranges::find_if(children, is_cause); cause != children.end())
    return *cause->outcome;
  for (std::size_t r = 0; r < children.size(); ++r) {
    const Child& child = children[r];
    if (child.outcome || may_die(Rank{static_cast<std::int32_t>(r)})) continue;
    return failure(Errc::peer_lost, child.signal != 0
                                        ? fmt::format("rank {} was killed by signal {}", r, child.signal)
                                        : fmt::format("rank {} ended without a result", r));
  }
  Outcome settled = ExitStatus::ok;
  for (const Child& child : children) {
    if (child.outcome && settled && *settled == ExitStatus::ok) settled = *child.outcome;
  }
  return settled;
}

}  // namespace

Outcome run_forked_ranks(std::int32_t num_ranks, const RankBody& body,
                         const std::function<bool(Rank)>& may_die) {
  Result<std::vector<Bootstrap>> bootstraps = make_local_bootstraps(num_ranks);
  if (!bootstraps) return failure(std::move(bootstraps));
  std::fflush(nullptr);
  std::vector<Child> children;
  std::optional<Error> failed;
  for (const Bootstrap& bootstrap : *bootstraps) {
    Result<Child> child = start(bootstrap, body);
    if (!child) {
      failed = std::move(child).error();
      break;
    }
    children.push_back(std::move(*child));
  }
  bootstraps->clear();  // Rank 0 has the socket now.
  if (failed) {
    for (const Child& child : children) kill(child.process, SIGKILL);
  }
  for (Child& child : children) finish(child);
  if (failed) return tl::unexpected(std::move(*failed));
  return settle(children, may_die);
}

}  // namespace trimtab
