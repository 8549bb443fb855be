// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/clock.hpp>
#include <trimtab/core/topology.hpp>
#include <trimtab/migrate/program.hpp>
#include <trimtab/transport/transport.hpp>
#include <trimtab/weights/expert_store.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace trimtab {

/// One rank's part of one step, up to the vote and through the commit: reads sources from live slots, sends,
/// receives into staging, passes on what others of the node need too, copies local moves into staging,
/// verifies checksums; later exchanges staging and slots.
///
/// Until `exchange` nothing but staging and the store's workspaces is written. Layers whose slots are not
/// addressable are read one after another through the workspaces, which this run then keeps to itself until
/// it is destroyed; while another run has them, nothing of such a layer moves and the run does not complete.
/// Not thread-safe. Borrows everything; staging, step and store must outlive every posted receive and send
/// (`is_quiet`).
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
  /// Precondition: nothing is posted any more, or the channel is closed.
  virtual ~StageRun();
  StageRun(const StageRun&) = delete;
  StageRun& operator=(const StageRun&) = delete;

  /// Bytes of staging that `step` needs on `rank`: each bundle that comes to it rounded up by staged_bytes,
  /// but for displaced ones.
  [[nodiscard]] static std::size_t staging_need(const Step& step, const Topology& topology, Rank rank,
                                                const ExpertStore& store);

  /// Works until nothing can be done now or `until` has passed; at least one piece of work is tried.
  /// @return whether anything was done; `corrupt` naming layer, expert and slots when a payload does not
  /// verify, or a transport's error.
  Result<bool> progress(const Clock& clock, Clock::time_point until);

  /// All bundles are staged and verified, all sends are complete, and the workspaces that `exchange` needs
  /// are this run's.
  [[nodiscard]] bool is_complete() const noexcept { return num_open_ == 0 && has_workspaces(); }

  /// Gives up what is still posted. Staging may be reused once `is_quiet`.
  void cancel() noexcept;
  /// Whether no posted receive can still write into staging, nor a send read. Polls.
  [[nodiscard]] bool is_quiet();

  /// Swaps every staged bundle with its slot; a layer in workspaces is written back once. Precondition:
  /// is_complete, no reader of the slots.
  virtual void exchange() noexcept;

  /// Re-reads up to `count` exchanged slots and compares them with what was verified in staging, beginning at
  /// a place that `salt` picks.
  /// @return `corrupt` naming layer, slot and expert.
  [[nodiscard]] Status verify_exchanged(std::size_t count, std::uint64_t salt);

  [[nodiscard]] std::uint64_t bytes_received() const noexcept { return bytes_received_; }
  [[nodiscard]] std::uint64_t bytes_copied() const noexcept { return bytes_copied_; }
  /// What `exchange` swaps.
  [[nodiscard]] std::uint64_t bytes_exchanged() const noexcept { return bytes_exchanged_; }
  /// Slots here whose expert was not on this rank before.
  [[nodiscard]] std::uint64_t slots_moved() const noexcept { return slots_moved_; }

 protected:
  /// Told once the bundle of `move` has been verified in `staged`.
  virtual void on_verified(const Move& /*move*/, std::span<std::byte> /*staged*/) {}

  [[nodiscard]] const Context& context() const noexcept { return context_; }

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

  [[nodiscard]] bool has_workspaces() const noexcept { return !needs_workspaces_ || has_acquired_; }
  [[nodiscard]] bool open(LayerId layer) noexcept;
  void close_layer() noexcept;
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
  std::size_t num_posted_sends_ = 0;  ///< They read slots and workspaces: the open layer must stay.
  std::size_t next_send_ = 0;  ///< The peer posts its receives in this order, so sends wait for their turn.
  bool needs_workspaces_ = false;
  bool has_acquired_ = false;
  std::optional<LayerId> open_layer_;  ///< In the store's workspaces.
  std::uint64_t bytes_received_ = 0;
  std::uint64_t bytes_copied_ = 0;
  std::uint64_t bytes_exchanged_ = 0;
  std::uint64_t slots_moved_ = 0;
};

}  // namespace trimtab
