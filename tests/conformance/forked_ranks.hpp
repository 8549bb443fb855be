// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/transport/bootstrap.hpp>

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace trimtab::test {

/// What a forked rank can say to its parent, and hear of it.
class ParentLine {
 public:
  ParentLine(int to_parent, int from_parent) noexcept : to_parent_(to_parent), from_parent_(from_parent) {}
  void say_ready() const;
  void await_go() const;

 private:
  int to_parent_;
  int from_parent_;
};

/// Ranks as forked processes, which tests may kill and stop. The parent must not have used UCX: it does not
/// survive a fork.
class ForkedRanks {
 public:
  /// A rank ends with what its body returns; 0 is well.
  using Body = std::function<int(const Bootstrap&, const ParentLine&)>;

  ForkedRanks(std::int32_t num_ranks, const Body& body);
  /// Kills what is left.
  ~ForkedRanks();
  ForkedRanks(const ForkedRanks&) = delete;
  ForkedRanks& operator=(const ForkedRanks&) = delete;

  void await_ready(Rank rank) const;
  void go(Rank rank) const;
  void signal(Rank rank, int number) const;
  /// Waits for its end: its exit code, or minus the signal that ended it.
  int result(Rank rank);

 private:
  struct Child {
    pid_t process = 0;
    int from_child = -1;
    int to_child = -1;
  };
  std::vector<Child> children_;
};

}  // namespace trimtab::test
