// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/transport/mpi.hpp>

#include <mpi.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace trimtab {

/// Finds out who does not come where all ranks of a communicator must meet: each tells rank 0 that it is
/// there, and rank 0 tells each, under a tag that nothing else uses. It must see the arrival of all before it
/// is destroyed.
class MpiMeeting {
 public:
  MpiMeeting(MPI_Comm comm, int tag);

  /// Looks once. True when all whom this rank hears of have come.
  [[nodiscard]] bool are_all_here();
  /// Ends the job when this rank has waited for too long, in the words "rank 3 has not … within … ms".
  void check(const MpiLimits& limits, std::chrono::milliseconds limit, std::string_view what);

 private:
  [[nodiscard]] std::string missing() const;

  Rank rank_;
  std::vector<int> peers_;
  std::vector<MPI_Request> arrivals_;  ///< Of these peers; null once they have come.
  std::vector<MPI_Request> sends_;     ///< To them.
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// Ends this process when a call of MPI that cannot be bounded takes longer than the limit. It cannot say who
/// is late, and the other processes are left to the launcher.
class MpiGuard {
 public:
  MpiGuard(const MpiLimits& limits, std::string_view call);
  ~MpiGuard();
  MpiGuard(const MpiGuard&) = delete;
  MpiGuard& operator=(const MpiGuard&) = delete;

 private:
  void watch(const MpiLimits& limits, std::string_view call);

  std::mutex mutex_;
  std::condition_variable returned_;
  bool has_returned_ = false;
  std::thread thread_;
};

}  // namespace trimtab
