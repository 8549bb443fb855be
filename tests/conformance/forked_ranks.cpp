// SPDX-License-Identifier: Apache-2.0
#include "conformance/forked_ranks.hpp"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>

namespace trimtab::test {
namespace {

std::array<int, 2> open_pipe() {
  std::array<int, 2> ends{-1, -1};
  EXPECT_EQ(pipe(ends.data()), 0);
  return ends;
}

void write_byte(int file) {
  const char byte = 1;
  EXPECT_EQ(write(file, &byte, 1), 1);
}

/// False when the other side has ended.
bool read_byte(int file) {
  char byte = 0;
  return read(file, &byte, 1) == 1;
}

[[noreturn]] void run_child(const ForkedRanks::Body& body, const Bootstrap& bootstrap,
                            const ParentLine& line) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int code = body(bootstrap, line);
  std::fflush(nullptr);
  _exit(code != 0 || testing::Test::HasFailure() ? 1 : 0);
}

}  // namespace

void ParentLine::say_ready() const { write_byte(to_parent_); }
void ParentLine::await_go() const { read_byte(from_parent_); }

ForkedRanks::ForkedRanks(std::int32_t num_ranks, const Body& body) {
  const auto ranks = make_local_bootstraps(num_ranks);
  EXPECT_TRUE(ranks);
  std::fflush(nullptr);
  for (const Bootstrap& bootstrap : *ranks) {
    const auto up = open_pipe();
    const auto down = open_pipe();
    const pid_t process = fork();
    if (process == 0) {
      close(up[0]);
      close(down[1]);
      run_child(body, bootstrap, ParentLine(up[1], down[0]));
    }
    close(up[1]);
    close(down[0]);
    children_.push_back({process, up[0], down[1]});
  }
}

ForkedRanks::~ForkedRanks() {
  for (Child& child : children_) {
    if (child.process > 0) {
      kill(child.process, SIGKILL);
      waitpid(child.process, nullptr, 0);
    }
    close(child.from_child);
    close(child.to_child);
  }
}

void ForkedRanks::await_ready(Rank rank) const {
  EXPECT_TRUE(read_byte(children_[rank.index()].from_child)) << "rank " << rank.value() << " ended early";
}

void ForkedRanks::go(Rank rank) const { write_byte(children_[rank.index()].to_child); }

void ForkedRanks::signal(Rank rank, int number) const { kill(children_[rank.index()].process, number); }

int ForkedRanks::result(Rank rank) {
  int status = 0;
  waitpid(children_[rank.index()].process, &status, 0);
  children_[rank.index()].process = 0;
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace trimtab::test
