// SPDX-License-Identifier: Apache-2.0
#include "transport/heartbeat.hpp"

#include <fmt/format.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

namespace trimtab {
namespace {

constexpr Tag beat_tag{0};
constexpr std::byte watching{0x57};  ///< From the lowest one that is alive, as its sender believes.
constexpr std::byte watched{0x54};

class BackgroundHeartbeat final : public Liveness {
 public:
  BackgroundHeartbeat(std::unique_ptr<Heartbeat> heartbeat, Clock::duration pause)
      : heartbeat_(std::move(heartbeat)),
        pause_(pause),
        thread_([this](const std::stop_token& stop) { run(stop); }) {}

  [[nodiscard]] RankHealth health_of(Rank rank) const noexcept override {
    return heartbeat_->health_of(rank);
  }

 private:
  void run(const std::stop_token& stop) {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any wake;
    while (!stop.stop_requested() && heartbeat_->beat())
      wake.wait_for(lock, stop, pause_, [] { return false; });
  }

  std::unique_ptr<Heartbeat> heartbeat_;
  Clock::duration pause_;
  std::jthread thread_;
};

}  // namespace

StarHeartbeat::StarHeartbeat(const HeartbeatOptions& options, std::unique_ptr<Transport> channel,
                             const Clock& clock)
    : options_(options),
      clock_(clock),
      channel_(std::move(channel)),
      mailboxes_(*channel_, beat_tag, sizeof watching),
      peers_(std::make_unique<Peer[]>(static_cast<std::size_t>(channel_->num_ranks()))),
      next_beat_(clock.now()) {}

StarHeartbeat::~StarHeartbeat() {
  channel_->close();
  channel_->join();
}

Status StarHeartbeat::start() {
  for (Rank peer : ids<Rank>(channel_->num_ranks())) {
    if (peer == channel_->rank()) continue;
    if (Status heard = mailboxes_.listen(peer); !heard) return heard;
  }
  return {};
}

Status StarHeartbeat::beat() {
  const Clock::time_point now = clock_.now();
  if (Status heard = hear(now); !heard) return heard;
  take_losses();
  judge(now);
  return send_beats(now);
}

Status StarHeartbeat::hear(Clock::time_point now) {
  for (;;) {
    const Result<std::optional<Mailboxes::Received>> received = mailboxes_.receive();
    if (!received) return tl::unexpected(received.error());
    if (!*received) return {};
    Peer& peer = peers_[(*received)->from.index()];
    peer.silent_at = now + patience();
    if ((*received)->bytes.front() == watching) peer.watches_until = peer.silent_at;
    if (peer.health.load(std::memory_order_relaxed) == RankHealth::silent) {
      peer.health.store(RankHealth::alive, std::memory_order_release);
    }
  }
}

/// A rank that is cut off serves on for all one knows, and must stay in the denominator of quorums.
void StarHeartbeat::take_losses() {
  const RankHealth lost = channel_->capabilities().knows_deaths ? RankHealth::dead : RankHealth::silent;
  for (Rank rank : channel_->take_peer_down_events())
    peers_[rank.index()].health.store(lost, std::memory_order_release);
}

/// The lowest rank watches all, the others watch it.
void StarHeartbeat::judge(Clock::time_point now) {
  const Rank lowest = lowest_alive();
  for (Rank rank : ids<Rank>(channel_->num_ranks())) {
    if (rank == channel_->rank()) continue;
    judge(rank, lowest == channel_->rank() || rank == lowest, now);
  }
}

/// Who was not watched so far had no reason to beat.
void StarHeartbeat::judge(Rank rank, bool is_watched, Clock::time_point now) {
  Peer& peer = peers_[rank.index()];
  const bool was_watched = std::exchange(peer.is_watched, is_watched);
  if (is_watched && !was_watched) peer.silent_at = now + patience();
  if (!is_watched || peer.health != RankHealth::alive || now < peer.silent_at) return;
  peer.health.store(RankHealth::silent, std::memory_order_release);
}

/// To two watchers, where one of them does not hear the other. One beat that is still under way is enough: it
/// waits in front of a rank that does not read.
Status StarHeartbeat::send_beats(Clock::time_point now) {
  if (now < next_beat_) return {};
  next_beat_ = now + options_.period;
  const Rank lowest = lowest_alive();
  const std::byte beat = lowest == channel_->rank() ? watching : watched;
  for (Rank rank : ids<Rank>(channel_->num_ranks())) {
    const bool is_due = beat == watching || rank == lowest || now < peers_[rank.index()].watches_until;
    if (!is_due || rank == channel_->rank() || mailboxes_.is_sending(rank) ||
        health_of(rank) == RankHealth::dead)
      continue;
    if (Status sent = mailboxes_.send(rank, {&beat, 1}); !sent) return sent;
  }
  return {};
}

Rank StarHeartbeat::lowest_alive() const noexcept {
  for (Rank rank : ids<Rank>(channel_->num_ranks())) {
    if (rank == channel_->rank() || health_of(rank) == RankHealth::alive) return rank;
  }
  return channel_->rank();
}

Result<std::unique_ptr<Heartbeat>> Heartbeat::make(const HeartbeatOptions& options,
                                                   std::unique_ptr<Transport> channel, const Clock& clock) {
  if (options.period <= Clock::duration::zero() || options.misses < 2) {
    return failure(Errc::invalid_argument, fmt::format("a heartbeat of period {} ns with {} misses",
                                                       options.period.count(), options.misses));
  }
  auto heartbeat = std::make_unique<StarHeartbeat>(options, std::move(channel), clock);
  if (Status started = heartbeat->start(); !started) return failure(std::move(started));
  return std::unique_ptr<Heartbeat>(std::move(heartbeat));
}

Result<std::unique_ptr<Liveness>> make_background_heartbeat(const HeartbeatOptions& options,
                                                            std::unique_ptr<Transport> channel,
                                                            const Clock& clock) {
  Result<std::unique_ptr<Heartbeat>> heartbeat = Heartbeat::make(options, std::move(channel), clock);
  if (!heartbeat) return failure(std::move(heartbeat));
  return std::unique_ptr<Liveness>(
      std::make_unique<BackgroundHeartbeat>(std::move(*heartbeat), options.period / 8));
}

}  // namespace trimtab
