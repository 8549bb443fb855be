// SPDX-License-Identifier: Apache-2.0
#include "fault_group.hpp"

#include "forked.hpp"
#include "transport/socket.hpp"

#include <trimtab/transport/bootstrap.hpp>
#include <trimtab/transport/liveness.hpp>
#include <trimtab/transport/ucx.hpp>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>

namespace trimtab::bench {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds longest_wait{30'000};

void end_child(pid_t process) {
  ::kill(process, SIGKILL);
  ::waitpid(process, nullptr, 0);
}

bool await_readable(int descriptor) {
  pollfd one{descriptor, POLLIN, 0};
  return ::poll(&one, 1, static_cast<int>(longest_wait.count())) == 1;
}

/// Returns when the rank is not taken for alive any more. Looks as often as costs little: the ranks share the
/// machine's cores.
Clock::time_point await_loss(const Liveness& liveness, Rank victim) {
  while (liveness.health_of(victim) == RankHealth::alive)
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  return SteadyClock().now();
}

bool is_judged_right(const Liveness& liveness, Rank victim, RankHealth expected) {
  for (const Rank rank : ids<Rank>(FaultGroup::num_ranks)) {
    if (liveness.health_of(rank) != (rank == victim ? expected : RankHealth::alive)) return false;
  }
  return true;
}

}  // namespace

/// What a rank tells: first that it is there, then what it has noticed.
struct FaultGroup::Note {
  Rank rank;
  std::int32_t is_right = 1;
  Clock::time_point at{};  ///< Processes of one machine share the clock.
};

FaultGroup::FaultGroup(const RankFault& fault) : fault_(fault) {
  std::array<int, 2> ends{};
  const auto bootstraps = value_of(make_local_bootstraps(num_ranks));
  if (::pipe(ends.data()) != 0) give_up("no pipe");
  for (const Bootstrap& bootstrap : bootstraps)
    processes_.push_back(fork_child([&] { run_rank(bootstrap, ends[1]); }));
  ::close(ends[1]);
  notes_ = ends[0];
}

FaultGroup::~FaultGroup() {
  std::ranges::for_each(processes_, end_child);
  ::close(notes_);
}

void FaultGroup::run_rank(const Bootstrap& bootstrap, int notes) const {
  const auto tell = [&](const Note& note) {
    if (::write(notes, &note, sizeof note) != sizeof note) std::_Exit(1);
  };
  const SteadyClock clock;
  UcxSession session = value_of(UcxSession::start(bootstrap));
  auto channel = value_of(make_ucx_transport(session));
  const bool is_known_dead = fault_.signal == SIGKILL && channel->capabilities().knows_deaths;
  const auto liveness = value_of(make_background_heartbeat({}, std::move(channel), clock));
  tell({bootstrap.rank});
  const Clock::time_point noticed = await_loss(*liveness, fault_.victim);
  const RankHealth expected = is_known_dead ? RankHealth::dead : RankHealth::silent;
  tell({bootstrap.rank, is_judged_right(*liveness, fault_.victim, expected) ? 1 : 0, noticed});
  for (;;) ::pause();
}

Status FaultGroup::await_start() {
  for (std::int32_t i = 0; i < num_ranks; ++i) {
    if (Result<Note> there = await_note(); !there) return failure(std::move(there));
  }
  return {};
}

Result<Clock::duration> FaultGroup::signal_and_await() {
  const Clock::time_point begin = SteadyClock().now();
  ::kill(processes_[fault_.victim.index()], fault_.signal);
  std::int32_t num_to_notice = 0;
  for (const Rank rank : ids<Rank>(num_ranks)) num_to_notice += has_to_notice(rank) ? 1 : 0;
  for (Clock::time_point last = begin;;) {
    const Result<Note> note = await_note();
    if (!note) return tl::unexpected(note.error());
    if (note->is_right == 0 || note->at < begin) {
      return failure(Errc::internal,
                     "rank " + std::to_string(note->rank.value()) + " took it for something else");
    }
    last = std::max(last, note->at);
    if (has_to_notice(note->rank) && --num_to_notice == 0) return last - begin;
  }
}

bool FaultGroup::has_to_notice(Rank rank) const noexcept {
  if (rank == fault_.victim) return false;
  return fault_.signal == SIGKILL || rank == Rank{0} || fault_.victim == Rank{0};
}

Result<FaultGroup::Note> FaultGroup::await_note() const {
  Note note;
  const bool has_come = await_readable(notes_) && ::read(notes_, &note, sizeof note) == sizeof note;
  if (!has_come)
    return failure(Errc::timeout, "a rank said nothing for " + std::to_string(longest_wait.count()) + " ms");
  return note;
}

Result<Clock::duration> time_until_connection_ends() {
  auto listening = value_of(Socket::listen("127.0.0.1", 0));
  const pid_t process = fork_child([&] {
    const Socket held = value_of(Socket::connect("127.0.0.1", listening.local_port(), longest_wait));
    ::pause();
  });
  Socket here;
  if (await_readable(listening.fd())) here = listening.accept();
  const Clock::time_point begin = SteadyClock().now();
  ::kill(process, SIGKILL);
  const bool has_ended = here.is_open() && await_readable(here.fd());
  const Clock::duration taken = SteadyClock().now() - begin;
  end_child(process);
  std::array<std::byte, 1> nothing{};
  if (has_ended && !here.receive_some(nothing)) return taken;
  return failure(Errc::timeout, "a connection to a killed process did not end");
}

}  // namespace trimtab::bench
