// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/clock.hpp>
#include <trimtab/core/topology.hpp>
#include <trimtab/migrate/program.hpp>
#include <trimtab/transport/transport.hpp>
#include <trimtab/weights/expert_store.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace trimtab {

/// One rank's part of one step, up to the vote and through the commit: reads sources from live slots, sends,
/// receives into staging, passes on what others of the node need too, copies local moves into staging,
/// verifies checksums; later exchanges staging and slots.
///
/// Until `exchange` nothing but staging is written. Not thread-safe. Borrows everything; staging, step and
/// store must outlive every posted receive (`is_quiet`).
class StageRun {
 public:
  struct Context {
    Transport& channel;
    ExpertStore& store;
    const Topology& topology;
    Tag tag;  ///< Names (view, attempt): payloads of another attempt never meet this one's receives.
  };

  /// `staging` must hold staging_need bytes.
  StageRun(const Context& context, const Step& step, std::span<std::byte> staging);

  /// Bytes of staging that `step` needs on `rank`: each bundle that comes to it rounded up by staged_bytes,
  /// but for displaced ones.
  [[nodiscard]] static std::size_t staging_need(const Step& step, const Topology& topology, Rank rank,
                                                const ExpertStore& store);

  /// Works until nothing can be done now or `until` has passed; at least one piece of work is tried.
  /// @return whether anything was done; `corrupt` naming layer, expert and slots when a payload does not
  /// verify, or a transport's error.
  Result<bool> progress(const Clock& clock, Clock::time_point until);

  /// All bundles are staged and verified, and all sends are complete.
  [[nodiscard]] bool is_complete() const noexcept { return num_open_ == 0; }

  /// Gives up what is still posted. Staging may be reused once `is_quiet`.
  void cancel() noexcept;
  /// Whether no posted receive can still write into staging, nor a send read. Polls.
  [[nodiscard]] bool is_quiet();

  /// Swaps every staged bundle with its slot. Precondition: is_complete, no reader of the slots.
  void exchange() noexcept;

  /// Re-reads up to `count` exchanged slots and compares them with what was verified in staging, beginning at
  /// a place that `salt` picks.
  /// @return `corrupt` naming layer, slot and expert.
  [[nodiscard]] Status verify_exchanged(std::size_t count, std::uint64_t salt) const;

  [[nodiscard]] std::uint64_t bytes_received() const noexcept { return bytes_received_; }
  [[nodiscard]] std::uint64_t bytes_copied() const noexcept { return bytes_copied_; }
  /// Slots here whose expert was not on this rank before.
  [[nodiscard]] std::uint64_t slots_moved() const noexcept { return slots_moved_; }

 private:
  enum class ItemState : std::uint8_t { waiting, posted, done };
  struct Incoming;
  struct Outgoing {
    Move move;
    const Incoming* relayed = nullptr;  ///< What is passed on once it has arrived; null: a live slot is sent.
    std::uint64_t checksum = 0;
    Ticket ticket{};
    ItemState state = ItemState::waiting;
  };
  struct Incoming {
    Move move;
    std::span<std::byte> staged;  ///< Of a displaced one: where the exchange of its source leaves it.
    std::uint64_t checksum = 0;
    Ticket ticket{};
    ItemState state = ItemState::waiting;
  };

  Result<bool> visit_items(const Clock& clock, Clock::time_point until);
  void add_outgoing(const Move& move);
  void add_incoming(const Move& move, std::span<std::byte>& staging);
  void link_displaced();
  [[nodiscard]] const Incoming& arrival_at(LayerId layer, SlotId destination) const;

  Result<bool> advance(Outgoing& item);
  Result<bool> advance(Incoming& item);
  [[nodiscard]] bool can_post(const Outgoing& item) const;
  [[nodiscard]] std::vector<std::span<const std::byte>> payload_of(const Outgoing& item) const;
  Result<bool> post(Outgoing& item);
  Result<bool> post_receive(Incoming& item);
  Result<bool> finish_receive(Incoming& item);
  Result<bool> copy_local(Incoming& item);
  Result<bool> reuse_staged(Incoming& item);
  Result<bool> expect_displaced(Incoming& item);
  Status verify(Incoming& item);
  void close_item(ItemState& state) noexcept;

  Context context_;
  std::vector<std::unique_ptr<Outgoing>> outgoing_;  ///< Stable addresses: legs point into the items.
  std::vector<std::unique_ptr<Incoming>> incoming_;
  std::size_t num_open_ = 0;
  std::uint64_t bytes_received_ = 0;
  std::uint64_t bytes_copied_ = 0;
  std::uint64_t slots_moved_ = 0;
};

}  // namespace trimtab
