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

/// Waits for the child's end. @return false when it was stopped instead, if that `may_be`.
bool await_end(Child& child, bool may_be) {
  int status = 0;
  for (;;) {
    if (waitpid(child.process, &status, may_be ? WUNTRACED : 0) < 0) {
      if (errno == EINTR) continue;
      break;
    }
    if (!WIFSTOPPED(status)) break;
    if (WSTOPSIG(status) == SIGSTOP) return false;
  }
  if (WIFSIGNALED(status)) child.signal = WTERMSIG(status);
  return true;
}

/// What it has told; after its end.
void read_ending(Child& child) {
  Ending ending;
  ssize_t size = 0;
  do size = read(child.pipe, &ending, sizeof ending);
  while (size < 0 && errno == EINTR);
  close(child.pipe);
  if (size != sizeof ending) return;
  if (ending.code == 0) {
    child.outcome = static_cast<ExitStatus>(ending.status);
  } else {
    child.outcome = failure(static_cast<Errc>(ending.code), ending.text.data());
  }
}

/// Stopped ones are waited for last: nobody else would let them go.
void finish_all(std::vector<Child>& children, const RankLosses& losses) {
  std::vector<Child*> stopped;
  for (std::size_t r = 0; r < children.size(); ++r) {
    if (!await_end(children[r], losses.may_be_lost(Rank{static_cast<std::int32_t>(r)})))
      stopped.push_back(&children[r]);
  }
  for (Child* child : stopped) {
    kill(child->process, SIGKILL);
    await_end(*child, false);
  }
  for (Child& child : children) read_ending(child);
}

/// Who lost a peer, or waited for one in vain, only tells of another's failure.
bool is_cause(const Child& child) {
  if (!child.outcome || *child.outcome) return false;
  const Errc code = child.outcome->error().code;
  return code != Errc::peer_lost && code != Errc::timeout;
}

bool has_served(const Child& child) { return child.outcome && child.outcome->has_value(); }

/// The first status that is not ok, of those that have served to the end.
ExitStatus status_of(const std::vector<Child>& children) {
  const auto is_bad = [](const Child& child) {
    return has_served(child) && **child.outcome != ExitStatus::ok;
  };
  const auto bad = std::ranges::find_if(children, is_bad);
  return bad == children.end() ? ExitStatus::ok : **bad->outcome;
}

Outcome why_failed(const std::vector<Child>& children, const RankLosses& losses) {
  if (const auto cause = std::ranges::find_if(children, is_cause); cause != children.end())
    return *cause->outcome;
  const auto has_told = [](const Child& child) { return child.outcome && !*child.outcome; };
  const auto told = std::ranges::find_if(children, has_told);
  for (std::size_t r = 0; r < children.size(); ++r) {
    const Child& child = children[r];
    const bool may_be = losses.may_be_lost(Rank{static_cast<std::int32_t>(r)}) && told != children.end();
    if (child.outcome || may_be) continue;
    return failure(Errc::peer_lost, child.signal != 0
                                        ? fmt::format("rank {} was killed by signal {}", r, child.signal)
                                        : fmt::format("rank {} ended without a result", r));
  }
  return *told->outcome;
}

Outcome settle(const std::vector<Child>& children, const RankLosses& losses) {
  bool is_served = std::ranges::any_of(children, has_served);
  for (std::size_t r = 0; r < children.size(); ++r) {
    is_served =
        is_served && (has_served(children[r]) || losses.may_be_lost(Rank{static_cast<std::int32_t>(r)}));
  }
  if (!is_served) return why_failed(children, losses);
  for (const Child& child : children) {
    if (child.outcome && !*child.outcome) losses.on_lost(child.outcome->error());
  }
  return status_of(children);
}

}  // namespace

Outcome run_forked_ranks(std::int32_t num_ranks, const RankBody& body, const RankLosses& losses) {
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
  finish_all(children, losses);
  if (failed) return tl::unexpected(std::move(*failed));
  return settle(children, losses);
}

}  // namespace trimtab
