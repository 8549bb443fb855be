// SPDX-License-Identifier: Apache-2.0
#include "transport/mpi/mpi_end.hpp"

#include "transport/check_legs.hpp"
#include "transport/mpi/mpi_errors.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <limits>

namespace trimtab {
namespace {

constexpr std::size_t max_message_bytes = std::numeric_limits<int>::max();

std::uint32_t max_tag_of(MPI_Comm comm) {
  int* limit = nullptr;
  int is_set = 0;
  MPI_Comm_get_attr(comm, MPI_TAG_UB, &limit, &is_set);
  constexpr std::uint32_t least_by_the_standard = 32767;
  return is_set != 0 ? static_cast<std::uint32_t>(*limit) : least_by_the_standard;
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

Result<std::unique_ptr<Transport>> MpiEnd::open(MPI_Comm parent) {
  MPI_Comm comm = MPI_COMM_NULL;
  if (const int code = MPI_Comm_dup(parent, &comm); code != MPI_SUCCESS) {
    return failure(Errc::unavailable, mpi_message("MPI_Comm_dup", code));
  }
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  return std::unique_ptr<Transport>(new MpiEnd(comm));
}

MpiEnd::MpiEnd(MPI_Comm owned) : comm_(owned) {
  int rank = 0;
  MPI_Comm_rank(comm_, &rank);
  rank_ = Rank{rank};
  MPI_Comm_size(comm_, &num_ranks_);
  // Open MPI's own buffers belong to the process, and are not more for one channel more.
  capabilities_ = {
      .name = "mpi", .is_fault_tolerant = false, .max_tag = max_tag_of(comm_), .buffer_bytes = 0};
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
  for (std::size_t i = 0; i < legs.size(); ++i) {
    // A leg that MPI refuses does not undo those before it: the ticket reports it when they are through.
    if (const int code = start(legs[i], comm_, posted.requests[i]); code == MPI_SUCCESS) {
      ++posted.num_open;
    } else if (!posted.error) {
      posted.error = Error{Errc::internal, mpi_message("MPI_Isend or MPI_Irecv", code)};
    }
  }
  return last_ticket_;
}

int MpiEnd::start(const Leg& leg, MPI_Comm comm, MPI_Request& request) {
  const auto size = static_cast<int>(leg.memory.size());
  const auto tag = static_cast<int>(leg.tag.value());
  return leg.side == Side::send
             ? MPI_Isend(leg.memory.data(), size, MPI_BYTE, leg.peer.value(), tag, comm, &request)
             : MPI_Irecv(leg.memory.data(), size, MPI_BYTE, leg.peer.value(), tag, comm, &request);
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
    advance(posted);
    if (posted.num_open == 0 || std::chrono::steady_clock::now() - begin >= budget) return;
    if (i >= num_spins) sched_yield();
  }
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
  for (int i = 0; i < num_complete; ++i) {  // MPI_UNDEFINED is negative
    const MPI_Status& status = statuses_[static_cast<std::size_t>(i)];
    complete(posted, static_cast<std::size_t>(indices_[static_cast<std::size_t>(i)]), status,
             code == MPI_SUCCESS ? MPI_SUCCESS : status.MPI_ERROR);
  }
}

void MpiEnd::complete(Posted& posted, std::size_t index, const MPI_Status& status, int code) {
  --posted.num_open;
  MPI_Request& request = posted.requests[index];
  if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);  // some versions keep a request that failed
  if (code != MPI_SUCCESS) {
    int error_class = MPI_SUCCESS;
    MPI_Error_class(code, &error_class);
    const Leg& leg = posted.legs[index];
    if (!posted.error) {
      posted.error = error_class == MPI_ERR_TRUNCATE
                         ? message_too_large(leg, static_cast<std::size_t>(status._ucount))
                         : Error{Errc::internal, mpi_message("MPI_Testsome", code)};
    }
    return;
  }
  int was_cancelled = 0;
  MPI_Test_cancelled(&status, &was_cancelled);
  posted.is_cancelled = posted.is_cancelled || was_cancelled != 0;
}

Error MpiEnd::unknown(Ticket ticket) const {
  return {is_closed_ ? Errc::closed : Errc::not_found,
          fmt::format("ticket {} is not posted at the {} mpi end of rank {}", ticket.value(),
                      is_closed_ ? "closed" : "open", rank_.value())};
}

void MpiEnd::cancel(Ticket ticket) noexcept {
  if (const auto found = tickets_.find(ticket); found != tickets_.end()) cancel_receives(found->second);
}

// Sends are left to finish: Open MPI cannot cancel them, and the standard has dropped it.
void MpiEnd::cancel_receives(Posted& posted) noexcept {
  for (std::size_t i = 0; i < posted.requests.size(); ++i) {
    if (posted.legs[i].side == Side::receive && posted.requests[i] != MPI_REQUEST_NULL) {
      MPI_Cancel(&posted.requests[i]);
    }
  }
}

Result<std::unique_ptr<Transport>> MpiEnd::open_channel() {
  if (is_closed_) {
    return failure(Errc::closed, fmt::format("mpi end of rank {}: open_channel after close", rank_.value()));
  }
  return open(comm_);
}

void MpiEnd::close() noexcept {
  if (is_closed_) return;
  is_closed_ = true;
  if (!is_mpi_live()) return;
  for (auto& [ticket, posted] : tickets_) cancel_receives(posted);
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
// cancelled. So every end, once closed, takes what still comes and drops it.
void MpiEnd::discard_arrivals() {
  int has_arrived = 0;
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &has_arrived, &message, MPI_STATUS_IGNORE);
  if (has_arrived == 0) return;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Imrecv(nullptr, 0, MPI_BYTE, &message, &request);  // no memory: MPI drops what does not fit
  discards_.push_back(request);
}

void MpiEnd::join() noexcept {
  close();
  if (comm_ == MPI_COMM_NULL || !is_mpi_live()) return;
  // When every rank has come here and no send is under way any more, the channel is empty.
  while (!advance_all()) {
    discard_arrivals();
    sched_yield();
  }
  MPI_Request all_are_here = MPI_REQUEST_NULL;
  MPI_Ibarrier(comm_, &all_are_here);
  for (int are_here = 0; are_here == 0;) {
    discard_arrivals();
    MPI_Test(&all_are_here, &are_here, MPI_STATUS_IGNORE);
    sched_yield();
  }
  for (MPI_Request& request : discards_) MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Comm_free(&comm_);
}

}  // namespace trimtab
