// SPDX-License-Identifier: Apache-2.0
#include "verify/local_case.hpp"

#include "verify/draw_deaths.hpp"
#include "verify/process_rank.hpp"
#include "verify/survivors.hpp"

#include <trimtab/transport/bootstrap.hpp>

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <new>

namespace trimtab::verify {
namespace {

/// Whatever ends the parent ends its children, stopped ones too.
[[noreturn]] void run_child(const Case& drawn, const Bootstrap& bootstrap, SharedCase& shared, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  run_process_rank(drawn, bootstrap, shared);
  _exit(0);
}

}  // namespace

LocalCase::~LocalCase() {
  end_all();
  if (shared_ != nullptr) munmap(shared_, sizeof(SharedCase));
}

Status LocalCase::start() {
  void* memory = mmap(nullptr, sizeof(SharedCase), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return failure(Errc::io, "no memory to share with the ranks");
  shared_ = new (memory) SharedCase{};
  const auto bootstraps = make_local_bootstraps(drawn_.topology.num_ranks());
  if (!bootstraps) return tl::unexpected<Error>(bootstraps.error());
  std::fflush(nullptr);
  begun_ = clock_.now();
  const pid_t parent = getpid();
  for (const Bootstrap& bootstrap : *bootstraps) {
    const pid_t process = fork();
    if (process == 0) run_child(drawn_, bootstrap, *shared_, parent);
    if (process < 0)
      return failure(Errc::io, fmt::format("rank {} could not be forked", bootstrap.rank.value()));
    processes_.push_back({.id = process, .continue_at = std::nullopt});
  }
  return {};
}

bool LocalCase::watch() {
  bool have_ended = true;
  for (std::size_t rank = 0; rank < processes_.size(); ++rank) {
    Process& process = processes_[rank];
    int status = 0;
    if (process.id != 0 && waitpid(process.id, &status, WNOHANG | WUNTRACED) == process.id)
      note(rank, status);
    if (process.continue_at && clock_.now() >= *process.continue_at) {
      process.continue_at.reset();
      ::kill(process.id, SIGCONT);
    }
    have_ended = have_ended && process.id == 0;
  }
  if (!have_ended && clock_.now() - begun_ > limit()) {
    is_late_ = true;
    end_all();
    return true;
  }
  return have_ended;
}

void LocalCase::note(std::size_t rank, int status) {
  Process& process = processes_[rank];
  if (WIFSTOPPED(status)) {
    process.continue_at = clock_.now() + stop_length(rank);
    return;
  }
  process.id = 0;
  process.status = status;
  shared_->ranks[rank].is_gone.store(true);
}

void LocalCase::end_all() {
  for (Process& process : processes_) {
    if (process.id == 0) continue;
    ::kill(process.id, SIGKILL);
    waitpid(process.id, &process.status, 0);
    process.id = 0;
  }
}

Clock::duration LocalCase::stop_length(std::size_t rank) const {
  Clock::duration length{};
  for (const CaseFault& fault : drawn_.faults) {
    if (fault.kind == FaultKind::stop && fault.rank.index() == rank) length = std::max(length, fault.length);
  }
  return length;
}

/// Programs of several steps, views, and stops; no case that goes on needs half of it.
Clock::duration LocalCase::limit() const {
  Clock::duration lost{};
  for (const CaseFault& fault : drawn_.faults) lost += fault.length;
  return 100 * drawn_.engine.deadline + lost + std::chrono::seconds(20);
}

Result<TrialReport> LocalCase::report() const {
  for (std::size_t rank = 0; rank < processes_.size(); ++rank) {
    if (!record(rank).error.is_empty())
      return failure(Errc::unavailable, fmt::format("rank {}: {}", rank, record(rank).error.get()));
  }
  return TrialReport{counts(), violation()};
}

std::optional<Violation> LocalCase::violation() const {
  for (std::size_t rank = 0; rank < processes_.size(); ++rank) {
    const RankRecord& found = record(rank);
    if (found.has_violation) return Violation{found.check, drawn_.seed, found.what.get()};
  }
  if (is_late_)
    return Violation{Check::deadline, drawn_.seed, "not all ranks came to an end: the case was ended"};
  for (auto wrong : {crash(), disagreement(), served_on()}) {
    if (wrong) return wrong;
  }
  return std::nullopt;
}

/// A rank may be killed by its fault, and by nothing else.
std::optional<Violation> LocalCase::crash() const {
  for (std::size_t rank = 0; rank < processes_.size(); ++rank) {
    const bool is_killed =
        WIFSIGNALED(processes_[rank].status) && WTERMSIG(processes_[rank].status) == SIGKILL;
    const bool has_killed = std::ranges::any_of(drawn_.faults, [&](const CaseFault& fault) {
      return fault.kind == FaultKind::kill && fault.rank.index() == rank;
    });
    if (record(rank).phase.load() == RankPhase::finished || (is_killed && has_killed)) continue;
    return Violation{Check::alive, drawn_.seed,
                     fmt::format("rank {} ended with status {:#x}", rank, processes_[rank].status)};
  }
  return std::nullopt;
}

bool LocalCase::serves(std::size_t rank) const {
  return record(rank).phase.load() == RankPhase::finished && !record(rank).is_out;
}

/// Who serves in an older view must be in the newest one, of which it has not heard yet; in one view all is
/// the same.
std::optional<Violation> LocalCase::disagreement() const {
  if (!drawn_.has_deaths) return std::nullopt;
  for (std::size_t a = 0; a < processes_.size(); ++a) {
    for (std::size_t b = 0; b < processes_.size(); ++b) {
      if (!serves(a) || !serves(b) || record(a).view > record(b).view) continue;
      const bool is_behind = record(a).view < record(b).view;
      const bool is_member = ((record(b).members >> a) & 1) != 0;
      const bool is_same = record(a).members == record(b).members && record(a).epoch == record(b).epoch &&
                           record(a).placement == record(b).placement;
      if (is_member && (is_behind || is_same)) continue;
      return Violation{Check::one_view, drawn_.seed,
                       fmt::format("rank {} serves in view {}, epoch {}; rank {} in view {}, epoch {}", a,
                                   record(a).view, record(a).epoch, b, record(b).view, record(b).epoch)};
    }
  }
  return std::nullopt;
}

/// Behind a cut the smaller side stops. Of stops nothing is sure where time is real.
std::optional<Violation> LocalCase::served_on() const {
  if (!shared_->board.is_cut()) return std::nullopt;
  for (Rank rank : expected_fate(drawn_, struck()).stop) {
    if (serves(rank.index()))
      return Violation{Check::one_view, drawn_.seed, fmt::format("rank {} serves on", rank.value())};
  }
  return std::nullopt;
}

std::vector<bool> LocalCase::struck() const {
  std::vector<bool> struck;
  for (std::size_t i = 0; i < drawn_.faults.size(); ++i) {
    struck.push_back(((record(drawn_.faults[i].rank.index()).struck.load() >> i) & 1) != 0);
  }
  return struck;
}

/// One that serves to the end speaks for all.
TrialCounts LocalCase::counts() const {
  if (!drawn_.has_deaths) return record(0).counts;
  std::size_t speaker = 0;
  for (std::size_t rank = processes_.size(); rank-- > 0;) {
    const bool has_more = record(rank).counts.programs > record(speaker).counts.programs;
    if (serves(rank) || (!serves(speaker) && has_more)) speaker = rank;
  }
  TrialCounts counts = record(speaker).counts;
  const std::vector<bool> struck = this->struck();
  for (std::size_t i = 0; i < struck.size(); ++i) {
    if (struck[i]) counts.add_death(drawn_.faults[i].kind);
  }
  return counts;
}

}  // namespace trimtab::verify
