// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/clock.hpp>
#include <trimtab/transport/decorator.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace trimtab {

class PartedTickets;

/// Which legs a fault means; what is not set matches any.
struct LegMatcher {
  Side side = Side::send;
  std::optional<Rank> peer = std::nullopt;
  std::optional<Tag> tag = std::nullopt;
  std::optional<Tag> other_than = std::nullopt;  ///< Any tag but this one.
  std::optional<std::size_t> size_bytes = std::nullopt;

  [[nodiscard]] bool matches(const Leg& leg) const noexcept;
};

enum class FaultAction : std::uint8_t {
  drop,       ///< Sends only: done for the sender, never reaches the peer.
  corrupt,    ///< Sends only: the peer gets a copy with its middle byte inverted. Empty messages stay whole.
  duplicate,  ///< Sends only: the message arrives once more, so it also meets the peer's next receive.
  delay,      ///< Withheld for `Fault::hold`, or until FaultScript::release_delayed; later legs overtake it.
  reorder,    ///< Withheld until a later leg of its side, peer and tag has overtaken it, or as `delay`.
  fail,       ///< `post` returns an error and starts no leg.
};

/// "drop", "corrupt", "duplicate", "delay", "reorder", "fail".
[[nodiscard]] std::string_view to_string(FaultAction action) noexcept;

/// One fault: strikes the `occurrence`-th leg (from 0) that `match` means, in the order of posting, once.
struct Fault {
  LegMatcher match;
  FaultAction action = FaultAction::drop;
  std::uint64_t occurrence = 0;
  Errc code = Errc::peer_lost;  ///< What a `fail` returns.
  /// How long a `delay` lasts on the clock of the transport; not set: until the script releases it.
  std::optional<Clock::duration> hold = std::nullopt;
  /// Instead of `hold`: when a `delay` ends. Legs that wait for the same moment go in the order of posting.
  std::optional<Clock::time_point> until = std::nullopt;
};

/// The faults of one end, shared with whoever must be able to see that they struck.
/// The accessors may be called from any thread.
class FaultScript {
 public:
  /// Stops the process on a receive that is to be dropped, corrupted or duplicated.
  explicit FaultScript(const std::vector<Fault>& faults);

  /// One more fault, which counts its occurrences from now on. On the thread of the end.
  void add(const Fault& fault);

  /// Lets delayed legs, and those still to come, start at the next call on their end.
  void release_delayed() noexcept { is_released_.store(true); }
  [[nodiscard]] bool is_released() const noexcept { return is_released_.load(); }
  /// How many faults have struck.
  [[nodiscard]] std::size_t num_struck() const noexcept { return num_struck_.load(); }
  /// Whether the fault at `index` of those given has struck.
  [[nodiscard]] bool has_struck(std::size_t index) const noexcept { return has_struck_[index].load(); }

  /// The fault that strikes this leg, or null. Counts it; for FaultyTransport.
  const Fault* next(const Leg& leg) noexcept;

 private:
  std::vector<Fault> faults_;
  std::vector<std::uint64_t> num_matched_;  ///< By fault.
  std::atomic<std::size_t> num_struck_{0};
  std::deque<std::atomic<bool>> has_struck_;  ///< By fault.
  std::atomic<bool> is_released_{false};
};

/// A rank's end that loses, damages, repeats, holds up, reorders or refuses messages as scripted: what
/// networks do, made repeatable. Never changes the sender's memory.
class FaultyTransport final : public TransportDecorator {
 public:
  /// Borrows the clock, which times delays. Precondition: there is one where a fault has a
  /// hold or an end.
  FaultyTransport(std::unique_ptr<Transport> inner, std::shared_ptr<FaultScript> script,
                  const Clock* clock = nullptr);
  ~FaultyTransport() override;

  Result<Ticket> post(std::span<const Leg> legs) override;
  Result<Progress> poll(Ticket ticket, std::chrono::nanoseconds budget) override;
  void cancel(Ticket ticket) noexcept override;
  void close() noexcept override;

 private:
  struct Plan;

  Result<Plan> plan(std::span<const Leg> legs);
  [[nodiscard]] Clock::time_point end_of(const Fault& delay) const;
  void release();
  void repeat(const Leg& leg);

  std::shared_ptr<FaultScript> script_;
  const Clock* clock_;
  std::unique_ptr<PartedTickets> tickets_;
  std::vector<std::unique_ptr<std::vector<std::byte>>> repeated_;  ///< Until the end is destroyed.
};

}  // namespace trimtab
