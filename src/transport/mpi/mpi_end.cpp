// SPDX-License-Identifier: Apache-2.0
#include "transport/mpi/mpi_end.hpp"

#include "transport/check_legs.hpp"
#include "transport/mpi/mpi_errors.hpp"
#include "transport/mpi/mpi_meeting.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <limits>

namespace trimtab {
namespace {

constexpr std::size_t max_message_bytes = std::numeric_limits<int>::max();

/// Of a meeting: the largest that there is.
int meeting_tag_of(MPI_Comm comm) {
  int* limit = nullptr;
  int is_set = 0;
  MPI_Comm_get_attr(comm, MPI_TAG_UB, &limit, &is_set);
  constexpr int least_by_the_standard = 32767;
  return is_set != 0 ? *limit : least_by_the_standard;
}

std::uint32_t max_tag_of(MPI_Comm comm) { return static_cast<std::uint32_t>(meeting_tag_of(comm)) - 1; }

/// MPI_Comm_dup waits for ever for a rank that does not come.
void meet_to_open(MPI_Comm comm, const MpiLimits& limits) {
  if (limits.deadline.count() == 0) return;
  MpiMeeting meeting(comm, meeting_tag_of(comm));
  while (!meeting.are_all_here()) {
    meeting.check(limits, limits.deadline, "opened its channel");
    sched_yield();
  }
}

std::uint64_t key_of(int source, int tag) {
  return (static_cast<std::uint64_t>(source) << 32) | static_cast<std::uint32_t>(tag);
}

std::size_t size_of(const MPI_Status& message) {
  int size = 0;
  MPI_Get_count(&message, MPI_BYTE, &size);
  return static_cast<std::size_t>(size);
}

Status check_sizes(std::span<const Leg> legs) {
  for (std::size_t i = 0; i < legs.size(); ++i) {
    if (legs[i].memory.size() > max_message_bytes) {
      return failure(Errc::invalid_argument, fmt::format("leg {}: {} bytes > {}, the most of an MPI message",
                                                         i, legs[i].memory.size(), max_message_bytes));
    }
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Transport>> MpiEnd::open(MPI_Comm parent, const MpiLimits& limits) {
  meet_to_open(parent, limits);
  const MpiGuard guard(limits, "MPI_Comm_dup");
  MPI_Comm comm = MPI_COMM_NULL;
  if (const int code = MPI_Comm_dup(parent, &comm); code != MPI_SUCCESS) {
    return failure(Errc::unavailable, mpi_message("MPI_Comm_dup", code));
  }
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  return std::unique_ptr<Transport>(new MpiEnd(comm, limits));
}

MpiEnd::MpiEnd(MPI_Comm owned, MpiLimits limits) : comm_(owned), limits_(std::move(limits)) {
  int rank = 0;
  MPI_Comm_rank(comm_, &rank);
  rank_ = Rank{rank};
  MPI_Comm_size(comm_, &num_ranks_);
  // Open MPI's own buffers belong to the process, and are not more for one channel more.
  capabilities_ = {.name = "mpi",
                   .is_fault_tolerant = false,
                   .max_tag = max_tag_of(comm_),
                   .buffer_bytes = 0,
                   .cancels_sends = false};
}

MpiEnd::~MpiEnd() { join(); }

bool MpiEnd::can_reach(Rank peer) const noexcept {
  return peer != rank_ && ids<Rank>(num_ranks_).contains(peer);
}

Result<Ticket> MpiEnd::post(std::span<const Leg> legs) {
  if (is_closed_)
    return failure(Errc::closed, fmt::format("mpi end of rank {}: post after close", rank_.value()));
  if (Status checked = check_legs(*this, legs); !checked) return failure(std::move(checked));
  if (Status checked = check_sizes(legs); !checked) return failure(std::move(checked));
  last_ticket_ = last_ticket_.next();
  Posted& posted = tickets_[last_ticket_];
  posted.legs.assign(legs.begin(), legs.end());
  posted.requests.assign(legs.size(), MPI_REQUEST_NULL);
  posted.num_open = legs.size();
  for (std::size_t i = 0; i < legs.size(); ++i) start(posted, i);
  return last_ticket_;
}

void MpiEnd::start(Posted& posted, std::size_t index) {
  const Leg& leg = posted.legs[index];
  const auto tag = static_cast<int>(leg.tag.value());
  if (leg.side == Side::receive) {
    awaited_[key_of(leg.peer.value(), tag)].push_back({&posted, index});
    return;
  }
  const int code = MPI_Isend(leg.memory.data(), static_cast<int>(leg.memory.size()), MPI_BYTE,
                             leg.peer.value(), tag, comm_, &posted.requests[index]);
  // A leg that MPI refuses does not undo those before it: the ticket tells when they are through.
  if (code != MPI_SUCCESS) fail(posted, {Errc::internal, mpi_message("MPI_Isend", code)});
}

void MpiEnd::fail(Posted& posted, Error error) {
  --posted.num_open;
  if (!posted.error) posted.error = std::move(error);
}

Result<Progress> MpiEnd::poll(Ticket ticket, std::chrono::nanoseconds budget) {
  const auto found = tickets_.find(ticket);
  if (found == tickets_.end()) return tl::unexpected(unknown(ticket));
  advance_until(found->second, budget);
  if (found->second.num_open > 0) return Progress::pending;
  const Posted posted = std::move(found->second);
  tickets_.erase(found);
  if (posted.error) return tl::unexpected(*posted.error);
  return posted.is_cancelled ? Progress::cancelled : Progress::done;
}

void MpiEnd::advance_until(Posted& posted, std::chrono::nanoseconds budget) {
  constexpr int num_spins = 50;  // then ranks that share this core are let run
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0;; ++i) {
    match_arrivals();
    advance(posted);
    if (posted.num_open == 0 || std::chrono::steady_clock::now() - begin >= budget) return;
    if (i >= num_spins) sched_yield();
  }
}

void MpiEnd::match_arrivals() {
  while (!awaited_.empty()) {
    int has_arrived = 0;
    MPI_Status first{};
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &has_arrived, &first);
    if (has_arrived == 0) return;
    const auto queue = awaited_.find(key_of(first.MPI_SOURCE, first.MPI_TAG));
    if (queue != awaited_.end()) {
      if (!match_oldest(queue)) return;
      continue;
    }
    // Nobody waits for the first that came, and it hides the others.
    for (auto next = awaited_.begin(); next != awaited_.end();) match_oldest(next++);
    return;
  }
}

bool MpiEnd::match_oldest(Awaited::iterator queue) {
  const Awaiting oldest = queue->second.front();
  const Leg& leg = oldest.posted->legs[oldest.leg];
  int has_arrived = 0;
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Status status{};
  MPI_Improbe(leg.peer.value(), static_cast<int>(leg.tag.value()), comm_, &has_arrived, &message, &status);
  if (has_arrived == 0) return false;
  queue->second.pop_front();
  if (queue->second.empty()) awaited_.erase(queue);
  receive(*oldest.posted, oldest.leg, message, size_of(status));
  return true;
}

void MpiEnd::receive(Posted& posted, std::size_t index, MPI_Message message, std::size_t size_bytes) {
  std::span<std::byte> memory = posted.legs[index].memory;
  if (size_bytes > memory.size()) memory = posted.too_large[index] = Memory(size_bytes);
  const int code =
      MPI_Imrecv(memory.data(), static_cast<int>(size_bytes), MPI_BYTE, &message, &posted.requests[index]);
  if (code != MPI_SUCCESS) fail(posted, {Errc::internal, mpi_message("MPI_Imrecv", code)});
}

void MpiEnd::advance(Posted& posted) {
  if (posted.num_open == 0) return;
  const std::size_t size = posted.requests.size();
  MPI_Status clean{};
  clean.MPI_ERROR = MPI_SUCCESS;  // MPI writes this field only when the call as a whole failed
  indices_.resize(size);
  statuses_.assign(size, clean);
  int num_complete = 0;
  const int code = MPI_Testsome(static_cast<int>(size), posted.requests.data(), &num_complete,
                                indices_.data(), statuses_.data());
  for (int i = 0; i < num_complete; ++i) {  // MPI_UNDEFINED, when all are awaited, is negative
    const auto at = static_cast<std::size_t>(i);
    complete(posted, static_cast<std::size_t>(indices_[at]),
             code == MPI_SUCCESS ? MPI_SUCCESS : statuses_[at].MPI_ERROR);
  }
}

void MpiEnd::complete(Posted& posted, std::size_t index, int code) {
  MPI_Request& request = posted.requests[index];
  if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);  // some versions keep a request that failed
  if (code != MPI_SUCCESS) {
    fail(posted, {Errc::internal, mpi_message("MPI_Testsome", code)});
  } else if (const auto found = posted.too_large.find(index); found != posted.too_large.end()) {
    fail(posted, message_too_large(posted.legs[index], found->second.size()));
  } else {
    --posted.num_open;
  }
}

Error MpiEnd::unknown(Ticket ticket) const {
  return {is_closed_ ? Errc::closed : Errc::not_found,
          fmt::format("ticket {} is not posted at the {} mpi end of rank {}", ticket.value(),
                      is_closed_ ? "closed" : "open", rank_.value())};
}

void MpiEnd::cancel(Ticket ticket) noexcept {
  if (const auto found = tickets_.find(ticket); found != tickets_.end()) cancel(found->second);
}

// Sends are left to finish: Open MPI cannot cancel them, and the standard has dropped it.
void MpiEnd::cancel(Posted& posted) noexcept {
  for (const Leg& leg : posted.legs) {
    if (leg.side != Side::receive) continue;
    const auto queue = awaited_.find(key_of(leg.peer.value(), static_cast<int>(leg.tag.value())));
    if (queue == awaited_.end()) continue;
    const std::size_t num_given_up =
        std::erase_if(queue->second, [&](const Awaiting& waiting) { return waiting.posted == &posted; });
    posted.num_open -= num_given_up;
    posted.is_cancelled = posted.is_cancelled || num_given_up > 0;
    if (queue->second.empty()) awaited_.erase(queue);
  }
}

Result<std::unique_ptr<Transport>> MpiEnd::open_channel() {
  if (is_closed_) {
    return failure(Errc::closed, fmt::format("mpi end of rank {}: open_channel after close", rank_.value()));
  }
  return open(comm_, limits_);
}

void MpiEnd::close() noexcept {
  if (is_closed_) return;
  is_closed_ = true;
  for (auto& [ticket, posted] : tickets_) cancel(posted);
}

bool MpiEnd::advance_all() {
  bool all_terminal = true;
  for (auto& [ticket, posted] : tickets_) {
    advance(posted);
    all_terminal = all_terminal && posted.num_open == 0;
  }
  return all_terminal;
}

// A send that nobody will receive never finishes once it is larger than MPI's eager limit, and it cannot be
// cancelled. So every end, once closed, takes what still comes and drops it, one message after the other.
void MpiEnd::discard_arrivals() {
  int is_through = 0;
  MPI_Test(&discard_, &is_through, MPI_STATUS_IGNORE);
  if (is_through == 0) return;
  int has_arrived = 0;
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Status status{};
  MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &has_arrived, &message, &status);
  if (has_arrived == 0) return;
  discarded_.resize(size_of(status));
  MPI_Imrecv(discarded_.data(), static_cast<int>(discarded_.size()), MPI_BYTE, &message, &discard_);
}

void MpiEnd::join() noexcept {
  close();
  if (comm_ == MPI_COMM_NULL || !is_mpi_live()) return;
  std::optional<MpiMeeting> meeting;
  if (limits_.deadline.count() > 0) meeting.emplace(comm_, meeting_tag_of(comm_));
  leave(meeting ? &*meeting : nullptr);
  MPI_Wait(&discard_, MPI_STATUS_IGNORE);  // NOLINT(clang-analyzer-optin.mpi.MPI-Checker): started elsewhere
  MPI_Comm_free(&comm_);
}

/// When every rank has come here and none has a send under way, the channel is empty.
void MpiEnd::leave(MpiMeeting* meeting) {
  constexpr std::chrono::milliseconds longest{10'000};
  const auto wait_a_turn = [&] {
    discard_arrivals();
    if (meeting != nullptr) meeting->check(limits_, std::min(longest, limits_.deadline), "left its channel");
    sched_yield();
  };
  while (!advance_all()) wait_a_turn();
  MPI_Request all_are_empty = MPI_REQUEST_NULL;
  MPI_Ibarrier(comm_, &all_are_empty);
  for (int is_over = 0; is_over == 0; MPI_Test(&all_are_empty, &is_over, MPI_STATUS_IGNORE)) wait_a_turn();
  while (meeting != nullptr && !meeting->are_all_here()) wait_a_turn();
}

}  // namespace trimtab
