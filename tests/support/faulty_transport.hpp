// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/transport/transport.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

namespace trimtab::test {

/// Which legs a fault means; what is not set matches any.
struct LegMatcher {
  Side side = Side::send;
  std::optional<Rank> peer = std::nullopt;
  std::optional<Tag> tag = std::nullopt;
  std::optional<std::size_t> size_bytes = std::nullopt;

  [[nodiscard]] bool matches(const Leg& leg) const noexcept;
};

enum class FaultAction : std::uint8_t {
  drop,       ///< Sends only: done for the sender, never reaches the peer.
  corrupt,    ///< Sends only: the peer gets a copy with its middle byte inverted. Empty messages stay whole.
  duplicate,  ///< Sends only: the message arrives once more, so it also meets the peer's next receive.
  delay,      ///< Withheld until FaultScript::release_delayed; later legs overtake it.
  fail,       ///< `post` returns an error and starts no leg.
};

/// One fault: strikes the `occurrence`-th leg (from 0) that `match` means, in the order of posting, once.
struct Fault {
  LegMatcher match;
  FaultAction action = FaultAction::drop;
  std::uint64_t occurrence = 0;
  Errc code = Errc::peer_lost;  ///< What a `fail` returns.
};

/// The faults of one end, shared with the test, which must be able to see that they struck.
/// The accessors may be called from any thread.
class FaultScript {
 public:
  /// Stops the process on a receive that is to be dropped, corrupted or duplicated.
  explicit FaultScript(std::vector<Fault> faults);

  /// Lets delayed legs, and those still to come, start at the next call on their end.
  void release_delayed() noexcept { is_released_.store(true); }
  [[nodiscard]] bool is_released() const noexcept { return is_released_.load(); }
  /// How many faults have struck.
  [[nodiscard]] std::size_t num_struck() const noexcept { return num_struck_.load(); }

  /// The fault that strikes this leg, or null. Counts it; for FaultyTransport.
  const Fault* next(const Leg& leg) noexcept;

 private:
  std::vector<Fault> faults_;
  std::vector<std::uint64_t> num_matched_;  // by fault
  std::atomic<std::size_t> num_struck_{0};
  std::atomic<bool> is_released_{false};
};

/// A rank's end that loses, damages, repeats, holds up or refuses messages as scripted: what networks do,
/// made repeatable. Never changes the sender's memory. Channels opened from it are without faults.
class FaultyTransport final : public Transport {
 public:
  FaultyTransport(std::unique_ptr<Transport> inner, std::shared_ptr<FaultScript> script)
      : inner_(std::move(inner)), script_(std::move(script)) {}
  ~FaultyTransport() override { join(); }

  [[nodiscard]] const Capabilities& capabilities() const noexcept override { return inner_->capabilities(); }
  [[nodiscard]] Rank rank() const noexcept override { return inner_->rank(); }
  [[nodiscard]] std::int32_t num_ranks() const noexcept override { return inner_->num_ranks(); }
  [[nodiscard]] bool can_reach(Rank peer) const noexcept override { return inner_->can_reach(peer); }

  Result<Ticket> post(std::span<const Leg> legs) override;
  Result<Progress> poll(Ticket ticket, std::chrono::nanoseconds budget) override;
  void cancel(Ticket ticket) noexcept override;
  Result<std::unique_ptr<Transport>> open_channel() override { return inner_->open_channel(); }
  [[nodiscard]] std::vector<Rank> take_peer_down_events() override { return inner_->take_peer_down_events(); }
  void close() noexcept override;
  void join() noexcept override { inner_->join(); }

 private:
  struct Posted {
    std::vector<Ticket> inner;                    ///< Not known to be terminal yet.
    std::vector<Leg> delayed;                     ///< Not handed to the inner transport yet.
    std::vector<std::vector<std::byte>> damaged;  ///< What was sent instead of the caller's memory.
    bool is_cancelled = false;
    std::optional<Error> error;
  };
  /// Legs that go out at once, and those that go out behind them although nobody waits for them.
  struct Plan {
    std::vector<Leg> now;
    std::vector<Leg> again;
  };

  Result<Plan> plan(std::span<const Leg> legs, Posted& posted);
  void release(Posted& posted);
  void repeat(const Leg& leg);
  Result<Progress> poll_inner(Posted& posted, std::chrono::nanoseconds budget);

  std::unique_ptr<Transport> inner_;
  std::shared_ptr<FaultScript> script_;
  std::unordered_map<Ticket, Posted> tickets_;
  std::vector<std::unique_ptr<std::vector<std::byte>>> repeated_;  ///< Until the end is destroyed.
  Ticket last_ticket_;
};

}  // namespace trimtab::test
