// SPDX-License-Identifier: Apache-2.0
#include "migrate/peer_copies.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

namespace trimtab {
namespace {

constexpr Tag request_tag{0};
constexpr Tag answer_tag{1};

Status check_plan(const HostCopyPlan& plan, const Transport& channel) {
  if (plan.num_ranks() == channel.num_ranks()) return {};
  return failure(Errc::invalid_argument, fmt::format("copies of peers: a plan for {} ranks, but there are {}",
                                                     plan.num_ranks(), channel.num_ranks()));
}

}  // namespace

PeerCopies::PeerCopies(const PeerCopyOptions& options, std::unique_ptr<Transport> channel,
                       std::shared_ptr<const HostCopySource> copies, HostCopyPlan plan,
                       const Liveness* liveness, const Clock& clock)
    : options_(options),
      liveness_(liveness),
      clock_(clock),
      channel_(std::move(channel)),
      requests_(*channel_, request_tag, sizeof(PieceRequest)),
      answers_(*channel_, answer_tag, sizeof(PieceHeader) + options.piece_bytes),
      copies_(std::move(copies)),
      plan_(std::move(plan)),
      is_lost_(static_cast<std::size_t>(channel_->num_ranks())) {}

PeerCopies::~PeerCopies() {
  channel_->close();
  channel_->join();
}

Status PeerCopies::start() {
  const std::lock_guard lock(mutex_);
  for (const Rank peer : ids<Rank>(channel_->num_ranks())) {
    if (peer == channel_->rank()) continue;
    if (Status heard = requests_.listen(peer); !heard) return heard;
  }
  return {};
}

std::string PeerCopies::describe() const {
  return fmt::format("host copies of {} peers", channel_->num_ranks() - 1);
}

Status PeerCopies::replace(std::shared_ptr<const HostCopySource> copies, HostCopyPlan plan) {
  if (Status fits = check_plan(plan, *channel_); !fits) return fits;
  const std::scoped_lock lock(reads_, mutex_);
  copies_ = std::move(copies);
  plan_ = std::move(plan);
  return {};
}

bool PeerCopies::holds(LayerId layer, ExpertId expert) const {
  const std::vector<Rank> keepers = keepers_of(layer, expert);
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(keepers, [this](Rank rank) { return !is_gone(rank); });
}

std::vector<Rank> PeerCopies::keepers_of(LayerId layer, ExpertId expert) const {
  const std::lock_guard lock(mutex_);
  const auto all = plan_.keepers(layer, expert);
  std::vector<Rank> others;
  std::ranges::copy_if(all, std::back_inserter(others),
                       [this](Rank rank) { return rank != channel_->rank(); });
  return others;
}

bool PeerCopies::is_gone(Rank rank) const {
  return is_lost_[rank.index()] || (liveness_ != nullptr && liveness_->health_of(rank) == RankHealth::dead);
}

Status PeerCopies::read_bundle(LayerId layer, ExpertId expert, std::span<std::byte> bundle) {
  const std::string place =
      fmt::format("copies of peers: layer {}, expert {}", layer.value(), expert.value());
  if (bundle.empty()) return failure(Errc::invalid_argument, place + ": no room");
  const std::lock_guard lock(reads_);
  Errc code = Errc::not_found;
  std::string said;
  for (const Rank keeper : keepers_of(layer, expert)) {
    Status done = read_from({layer, expert, keeper}, bundle);
    if (done) return done;
    code = done.error().code;
    said += (said.empty() ? "" : "; ") + done.error().message;
  }
  if (!said.empty()) return failure(code, std::move(said));
  return failure(code, place + ": no other rank keeps one");
}

Status PeerCopies::read_from(const CopyFetch::Wanted& wanted, std::span<std::byte> bundle) {
  if (Status begun = begin_fetch(wanted, bundle); !begun) return begun;
  Status outcome = await_fetch();
  end_fetch();
  return outcome;
}

Status PeerCopies::begin_fetch(const CopyFetch::Wanted& wanted, std::span<std::byte> bundle) {
  const std::lock_guard lock(mutex_);
  fetch_.emplace(++num_fetches_, wanted, bundle, options_.piece_bytes);
  return answers_.listen(wanted.keeper);
}

/// From here on nothing touches the bundle any more.
void PeerCopies::end_fetch() {
  const std::lock_guard lock(mutex_);
  fetch_.reset();
}

Status PeerCopies::await_fetch() {
  std::size_t seen = 0;
  for (Clock::time_point until = clock_.now() + options_.deadline;;) {
    std::size_t arrived = 0;
    if (auto outcome = step_fetch(arrived)) return *std::move(outcome);
    const Clock::time_point now = clock_.now();
    if (std::exchange(seen, arrived) != arrived) until = now + options_.deadline;
    if (now >= until) {
      const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(options_.deadline);
      return failure(Errc::timeout, fmt::format("{}: nothing came for {} ms, {} bytes before",
                                                fetch_->place(), waited.count(), arrived));
    }
    std::this_thread::yield();
  }
}

std::optional<Status> PeerCopies::step_fetch(std::size_t& arrived) {
  const std::lock_guard lock(mutex_);
  if (Result<bool> worked = work(); !worked) return failure(std::move(worked));
  arrived = fetch_->arrived();
  if (fetch_->is_over()) return fetch_->outcome();
  if (Status there = check_is_there(); !there) return there;
  if (Status asked = ask_for_pieces(); !asked) return asked;
  return std::nullopt;
}

Status PeerCopies::check_is_there() const {
  const Rank keeper = fetch_->wanted().keeper;
  if (is_gone(keeper)) return failure(Errc::peer_lost, fetch_->place() + " is gone");
  if (liveness_ == nullptr || liveness_->health_of(keeper) == RankHealth::alive) return {};
  return failure(Errc::unavailable, fetch_->place() + " is silent");
}

Status PeerCopies::ask_for_pieces() {
  while (const auto request = fetch_->next_request(options_.pieces_ahead)) {
    const auto bytes = std::as_bytes(std::span(&*request, 1));
    if (Status sent = requests_.send(fetch_->wanted().keeper, bytes); !sent) return sent;
  }
  return {};
}

Result<bool> PeerCopies::progress() {
  const std::lock_guard lock(mutex_);
  return work();
}

Result<bool> PeerCopies::work() {
  for (const Rank rank : channel_->take_peer_down_events()) is_lost_[rank.index()] = true;
  if (Status taken = take_answers(); !taken) return failure(std::move(taken));
  return answer_requests();
}

Result<bool> PeerCopies::answer_requests() {
  for (bool was_asked = false;; was_asked = true) {
    const auto received = requests_.receive();
    if (!received) return tl::unexpected(received.error());
    if (!*received) return was_asked;
    const auto request = read_message<PieceRequest>((*received)->bytes);
    if (!request || request->size > options_.piece_bytes) continue;
    answer_request(*request, copies_.get(), answer_);
    if (Status sent = answers_.send((*received)->from, answer_); !sent) return failure(std::move(sent));
  }
}

Status PeerCopies::take_answers() {
  for (;;) {
    const auto received = answers_.receive();
    if (!received) return tl::unexpected(received.error());
    if (!*received) return {};
    if (fetch_) fetch_->take((*received)->from, (*received)->bytes);
  }
}

Result<std::unique_ptr<PeerCopySource>> PeerCopySource::make(const PeerCopyOptions& options,
                                                             std::unique_ptr<Transport> channel,
                                                             std::shared_ptr<const HostCopySource> copies,
                                                             HostCopyPlan plan, const Liveness* liveness,
                                                             const Clock& clock) {
  if (options.deadline <= Clock::duration::zero() || options.piece_bytes == 0 || options.pieces_ahead == 0) {
    return failure(Errc::invalid_argument,
                   fmt::format("copies of peers: a deadline of {} ns, pieces of {} bytes, {} of them ahead",
                               options.deadline.count(), options.piece_bytes, options.pieces_ahead));
  }
  if (Status fits = check_plan(plan, *channel); !fits) return failure(std::move(fits));
  auto made = std::make_unique<PeerCopies>(options, std::move(channel), std::move(copies), std::move(plan),
                                           liveness, clock);
  if (Status started = made->start(); !started) return failure(std::move(started));
  return std::unique_ptr<PeerCopySource>(std::move(made));
}

}  // namespace trimtab
