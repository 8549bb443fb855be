// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "nccl_like.hpp"

#include <trimtab/transport/transport.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace own {

struct Posted;

/// A leg, from `post` until its ticket has been told of.
struct OpenLeg {
  trimtab::Leg leg;
  Posted* posted = nullptr;
  std::uint64_t id = 0;  ///< Of its message.
  std::size_t message_bytes = 0;
  bool is_open = true;
};

/// What a ticket names.
struct Posted {
  std::vector<OpenLeg> legs;
  std::size_t num_open = 0;
  bool is_giving_up = false;  ///< The caller asked.
  bool is_cancelled = false;  ///< A leg was given up.
  std::optional<trimtab::Error> error;
};

/// All that goes between this rank and one peer.
///
/// The host lane says what the communicator can not: a send offers its tag and size; its receive, once it is
/// posted, grants it. Of what both sides have agreed on the lower rank makes groups, and says what is in each
/// and in which order before it launches it: so both sides launch the same groups in the same order, whatever
/// order their callers post in, and nothing is launched that has no other half.
class Pair {
 public:
  Pair(nccl_like::World& world, trimtab::Rank rank, trimtab::Rank peer);

  void start(OpenLeg& leg);
  /// Gives a leg up as far as it can be: what was granted runs to its end, which is near.
  void cancel(OpenLeg& leg);
  /// What the peer said.
  void handle(std::span<const std::byte> packet);
  /// Launches what is agreed on, and settles what has run. Returns whether anything happened.
  bool progress();
  /// Nothing of this rank is touched any more when it returns. Legs that are open then stay so.
  void close() noexcept;

  [[nodiscard]] bool is_gone() const noexcept { return is_gone_; }
  /// The leg will never meet its other half.
  [[nodiscard]] bool is_lost(const OpenLeg& leg) const noexcept { return is_cut_ && leg.is_open; }

 private:
  enum class Kind : std::uint8_t {
    offer,      ///< `size` bytes under `tag`; small ones come along.
    grant,      ///< The offer `id` has met its receive.
    settled,    ///< The offer `id` is over: its bytes came along, or do not fit.
    withdraw,   ///< The offer `id` is taken back, unless it has met its receive.
    withdrawn,  ///< So it is.
    group,      ///< The next group has these members.
    bye,        ///< This end has closed; the first `size` groups ran to their end.
  };
  struct Header {
    Kind kind{};
    std::uint32_t tag = 0;
    std::uint64_t id = 0;
    std::uint64_t size = 0;
  };
  struct Offer {
    std::uint64_t id = 0;
    std::size_t size = 0;
    std::vector<std::byte> inline_bytes;
  };
  /// Of a group, as the lower rank says it.
  struct Member {
    std::uint64_t id = 0;
    std::uint64_t is_from_lower = 0;
  };
  struct Launched {
    nccl_like::Event event;
    std::vector<OpenLeg*> legs;
  };

  void say(const Header& header, std::span<const std::byte> more = {});
  void take_offer(const Header& header, std::span<const std::byte> more);
  void match(OpenLeg& leg, const Offer& offer);
  void agree(std::uint64_t id, bool is_from_lower);
  void withdraw(const Header& header);
  void end_send(std::uint64_t id, bool is_cancelled);
  void launch_next();
  void launch(std::span<const Member> members);
  bool settle_launched();
  void cut() noexcept;

  nccl_like::World& world_;
  nccl_like::Communicator communicator_;
  trimtab::Rank rank_;
  trimtab::Rank peer_;
  bool is_lower_;

  std::uint64_t last_id_ = 0;
  std::unordered_map<std::uint64_t, OpenLeg*> sends_;                 ///< By message: offered, not launched.
  std::unordered_map<std::uint32_t, std::deque<OpenLeg*>> receives_;  ///< By tag: without a message.
  std::unordered_map<std::uint32_t, std::deque<Offer>> offers_;       ///< By tag: without a receive.
  std::unordered_map<std::uint64_t, OpenLeg*> granted_;               ///< By message: receives, not launched.
  std::deque<Member> agreed_;                                         ///< At the lower rank: in no group yet.
  std::deque<Launched> launched_;
  std::uint64_t num_settled_ = 0;   ///< Groups that ran to their end.
  std::uint64_t num_promised_ = 0;  ///< So many ran at the peer before it closed.
  bool is_gone_ = false;            ///< The peer has closed.
  bool is_cut_ = false;             ///< The communicator is aborted.
};

}  // namespace own
