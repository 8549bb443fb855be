// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/clock.hpp>
#include <trimtab/core/ids.hpp>
#include <trimtab/core/result.hpp>
#include <trimtab/transport/transport.hpp>

#include <cstdint>
#include <memory>

namespace trimtab {

/// What is known of another rank.
enum class RankHealth : std::uint8_t {
  alive,
  silent,  ///< Not heard of for too long: stopped, cut off, or dead.
  dead,    ///< The transport knows that its process is gone, for good.
};

/// Says which ranks seem to be there. May be asked from any thread.
class Liveness {
 public:
  virtual ~Liveness() = default;
  [[nodiscard]] virtual RankHealth health_of(Rank rank) const noexcept = 0;
};

struct HeartbeatOptions {
  Clock::duration period = std::chrono::milliseconds(250);
  std::int32_t misses = 3;  ///< A rank is silent before this many periods have passed without a beat.
};

/// Liveness by our own heartbeat. What a transport tells of peers that are gone only makes it faster: they
/// are dead where it knows deaths from cut links (Capabilities::knows_deaths), else silent.
///
/// Ranks beat to the lowest one that they believe alive, and it beats to all: O(ranks) messages per period.
/// So the lowest rank judges all others, and they judge it; when it goes, the next one takes its place. Who
/// is not heard by the lowest alone watches too, and is answered. A link between two others is nobody's. A
/// silent rank that is heard of again is alive; a dead one stays dead.
///
/// Threads: `beat` from one thread; `health_of` from any. Owns its channel, which nothing else may use; the
/// clock is borrowed. Errors: returned by `beat`.
class Heartbeat : public Liveness {
 public:
  /// @return `invalid_argument` for a period below 1 or fewer than 2 misses; errors of the channel.
  static Result<std::unique_ptr<Heartbeat>> make(const HeartbeatOptions& options,
                                                 std::unique_ptr<Transport> channel, const Clock& clock);

  /// Sends what is due, hears, and judges. To be called several times per period: what is not called for
  /// `misses` periods is silent to the others.
  virtual Status beat() = 0;
};

/// Beats in a thread of its own, so that a rank that computes for long is not taken for silent. Ends, and
/// goes silent, when the channel fails. The clock must be one that runs by itself.
[[nodiscard]] Result<std::unique_ptr<Liveness>> make_background_heartbeat(const HeartbeatOptions& options,
                                                                          std::unique_ptr<Transport> channel,
                                                                          const Clock& clock);

}  // namespace trimtab
