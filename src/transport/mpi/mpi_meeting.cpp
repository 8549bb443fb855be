// SPDX-License-Identifier: Apache-2.0
#include "transport/mpi/mpi_meeting.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>

namespace trimtab {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds step{250};
constexpr int num_steps = 8;

/// The lower the rank, the shorter, so that one speaks for all, and rank 0, which knows who is missing,
/// before the others.
milliseconds patience_of(Rank rank, milliseconds limit) {
  return limit + std::min(rank.value(), num_steps) * step;
}

/// Only for the thread that uses MPI.
[[noreturn]] void end_job(const MpiLimits& limits, const std::string& message) {
  limits.say(message);
  MPI_Abort(MPI_COMM_WORLD, limits.exit_code);
  std::_Exit(limits.exit_code);
}

}  // namespace

MpiMeeting::MpiMeeting(MPI_Comm comm, int tag) {
  int rank = 0;
  int num_ranks = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &num_ranks);
  rank_ = Rank{rank};
  for (int peer = 0; peer < num_ranks; ++peer) {
    if (peer != rank && (rank == 0 || peer == 0)) peers_.push_back(peer);
  }
  arrivals_.assign(peers_.size(), MPI_REQUEST_NULL);
  sends_ = arrivals_;
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    MPI_Irecv(nullptr, 0, MPI_BYTE, peers_[i], tag, comm, &arrivals_[i]);
    MPI_Isend(nullptr, 0, MPI_BYTE, peers_[i], tag, comm, &sends_[i]);
  }
}

bool MpiMeeting::are_all_here() {
  bool all_done = true;
  for (std::vector<MPI_Request>* requests : {&arrivals_, &sends_}) {
    for (MPI_Request& request : *requests) {
      int is_done = 0;
      MPI_Test(&request, &is_done, MPI_STATUS_IGNORE);
      all_done = all_done && is_done != 0;
    }
  }
  return all_done;
}

void MpiMeeting::check(const MpiLimits& limits, std::chrono::milliseconds limit, std::string_view what) {
  if (std::chrono::steady_clock::now() - begin_ < patience_of(rank_, limit)) return;
  static_cast<void>(are_all_here());
  end_job(limits,
          fmt::format("rank {}: {} not {} within {} ms", rank_.value(), missing(), what, limit.count()));
}

std::string MpiMeeting::missing() const {
  std::vector<int> names;
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    if (arrivals_[i] != MPI_REQUEST_NULL) names.push_back(peers_[i]);
  }
  if (names.empty()) return "some rank has";
  return names.size() == 1 ? fmt::format("rank {} has", names[0])
                           : fmt::format("ranks {} have", fmt::join(names, ", "));
}

MpiGuard::MpiGuard(const MpiLimits& limits, std::string_view call) {
  if (limits.deadline.count() > 0) thread_ = std::thread([this, limits, call] { watch(limits, call); });
}

MpiGuard::~MpiGuard() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    has_returned_ = true;
  }
  returned_.notify_one();
  thread_.join();
}

void MpiGuard::watch(const MpiLimits& limits, std::string_view call) {
  // Who knows a name speaks first.
  const milliseconds limit = limits.deadline + (num_steps + 1) * step;
  std::unique_lock lock(mutex_);
  if (returned_.wait_for(lock, limit, [this] { return has_returned_; })) return;
  limits.say(fmt::format("{} took more than {} ms: some rank does not come", call, limit.count()));
  std::_Exit(limits.exit_code);
}

}  // namespace trimtab
