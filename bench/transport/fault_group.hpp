// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/clock.hpp>
#include <trimtab/core/ids.hpp>
#include <trimtab/core/result.hpp>
#include <trimtab/transport/bootstrap.hpp>

#include <sys/types.h>

#include <cstdint>
#include <vector>

namespace trimtab::bench {

/// What happens to one rank.
struct RankFault {
  Rank victim;
  int signal = 0;  ///< SIGKILL or SIGSTOP.
};

/// Processes that watch each other over ucx, by heartbeats with their default options. They end with this
/// object, or with the process that made it, which must not use UCX itself.
class FaultGroup {
 public:
  static constexpr std::int32_t num_ranks = 4;

  explicit FaultGroup(const RankFault& fault);
  ~FaultGroup();
  FaultGroup(const FaultGroup&) = delete;
  FaultGroup& operator=(const FaultGroup&) = delete;

  /// Until all have met. @return `timeout`.
  Status await_start();
  /// Sends the signal. @return how long until all had noticed that find out by themselves: that a rank was
  /// killed all others, that it is silent those that watch it (all others the lowest, it all others).
  /// `timeout` when one does not; `internal` when one took it for something else, or suspects another too.
  Result<Clock::duration> signal_and_await();

 private:
  struct Note;

  [[noreturn]] void run_rank(const Bootstrap& bootstrap, int notes) const;
  [[nodiscard]] bool has_to_notice(Rank rank) const noexcept;
  [[nodiscard]] Result<Note> await_note() const;

  RankFault fault_;
  int notes_ = -1;  ///< Where the ranks' notes are read.
  std::vector<pid_t> processes_;
};

/// A process at the other end of a TCP connection is killed: how long until the connection has ended here.
[[nodiscard]] Result<Clock::duration> time_until_connection_ends();

}  // namespace trimtab::bench
