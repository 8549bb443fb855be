// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "transport/mailboxes.hpp"

#include <trimtab/transport/liveness.hpp>

#include <atomic>
#include <memory>
#include <vector>

namespace trimtab {

class StarHeartbeat final : public Heartbeat {
 public:
  StarHeartbeat(const HeartbeatOptions& options, std::unique_ptr<Transport> channel, const Clock& clock);
  ~StarHeartbeat() override;

  /// Call once before anything else.
  Status start();
  Status beat() override;
  [[nodiscard]] RankHealth health_of(Rank rank) const noexcept override {
    return peers_[rank.index()].health.load(std::memory_order_acquire);
  }

 private:
  struct Peer {
    std::atomic<RankHealth> health{RankHealth::alive};
    Clock::time_point silent_at;  ///< When it counts as silent unless it is heard of.
    bool is_watched = false;
    Clock::time_point watches_until;  ///< It has said that it watches this rank.
  };

  [[nodiscard]] Rank lowest_alive() const noexcept;
  /// A quarter of a period is for the caller, who looks only now and then.
  [[nodiscard]] Clock::duration patience() const noexcept {
    return options_.misses * options_.period - options_.period / 4;
  }
  Status hear(Clock::time_point now);
  void take_losses();
  void judge(Clock::time_point now);
  void judge(Rank rank, bool is_watched, Clock::time_point now);
  Status send_beats(Clock::time_point now);

  HeartbeatOptions options_;
  const Clock& clock_;
  std::unique_ptr<Transport> channel_;
  Mailboxes mailboxes_;
  std::unique_ptr<Peer[]> peers_;
  Clock::time_point next_beat_;
};

}  // namespace trimtab
