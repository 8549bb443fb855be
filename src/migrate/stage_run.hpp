// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "migrate/stage_context.hpp"
#include "migrate/stage_receive.hpp"
#include "migrate/stage_send.hpp"

#include <trimtab/core/clock.hpp>
#include <trimtab/core/topology.hpp>
#include <trimtab/migrate/program.hpp>
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
/// There, slots are converted only if a bundle is read from them or exchanged with them; before the run is
/// complete, also those of the layer with which `exchange` begins.
/// Not thread-safe. Borrows everything; staging, step and store must outlive every posted receive and send
/// (`is_quiet`).
class StageRun {
 public:
  using Context = StageContext;

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

  /// Works until nothing can be done now or `until` has passed; at least one piece of work is tried. Pieces
  /// are piece_bytes at most, whatever the bundles and their layouts are, but for a tensor in a WholeStorage
  /// and a bundle that is read from the source.
  /// @return whether anything was done; `corrupt` naming layer, expert and slots when a payload does not
  /// verify, or a transport's error.
  Result<bool> progress(const Clock& clock, Clock::time_point until);

  /// All bundles are staged and verified, all sends are complete, and the workspaces that `exchange` needs
  /// are this run's.
  [[nodiscard]] bool is_complete() const noexcept {
    return open_sends_.empty() && open_receives_.empty() && open_copies_.empty() && has_workspaces() &&
           is_prepared_;
  }

  /// Gives up what is still posted. Staging may be reused once `is_quiet`.
  void cancel() noexcept;
  /// Whether no posted receive can still write into staging, nor a send read. Polls.
  [[nodiscard]] bool is_quiet();

  /// Swaps every staged bundle with its slot; a layer in workspaces is written back once, in those slots.
  /// Precondition: is_complete, no reader of the slots.
  virtual void exchange() noexcept;

  /// What the slot held that `exchange` has written or the step leaves vacant. Precondition: exchanged, no
  /// layer open.
  /// @return `unavailable` when it is to be read from a workspace and another run has those.
  [[nodiscard]] Result<std::vector<std::byte>> displaced(LayerId layer, SlotId slot);

  /// Re-reads up to `count` exchanged slots and compares them with what was verified in staging, beginning at
  /// a place that `salt` picks.
  /// @return `corrupt` naming layer, slot and expert.
  [[nodiscard]] Status verify_exchanged(std::size_t count, std::uint64_t salt);

  [[nodiscard]] std::uint64_t bytes_received() const noexcept { return bytes_received_; }
  [[nodiscard]] std::uint64_t bytes_copied() const noexcept { return bytes_copied_; }
  [[nodiscard]] std::uint64_t bytes_recovered() const noexcept { return bytes_recovered_; }
  /// What `exchange` swaps.
  [[nodiscard]] std::uint64_t bytes_exchanged() const noexcept { return bytes_exchanged_; }
  /// Slots here whose expert was not on this rank before.
  [[nodiscard]] std::uint64_t slots_moved() const noexcept { return slots_moved_; }

 protected:
  /// Told once the bundle of `move` has been verified in `staged`.
  virtual void on_verified(const Move& /*move*/, std::span<std::byte> /*staged*/) {}

  [[nodiscard]] const Context& context() const noexcept { return context_; }

 private:
  [[nodiscard]] bool has_workspaces() const noexcept { return !needs_workspaces_ || has_acquired_; }
  [[nodiscard]] bool is_open(LayerId layer) const noexcept {
    return !context_.store.needs_workspace(layer) || open_layer_ == layer;
  }
  [[nodiscard]] bool is_reading() const noexcept;
  [[nodiscard]] bool may_open_for_copies() const noexcept;
  [[nodiscard]] bool open(LayerId layer) noexcept;
  void open_converted(LayerId layer, SlotId slot) noexcept;
  void close_layer() noexcept;

  void add_incoming(const Move& move, std::span<std::byte>& staging);
  void add_displaced(const Move& move);
  void add_outgoing(const Move& move);
  void list_open();
  /// What is kept here to be read instead of the source of `move`, or null.
  [[nodiscard]] const IncomingBundle* kept_for(const Move& move);
  [[nodiscard]] const IncomingBundle& arrival_at(LayerId layer, SlotId destination) const;

  Result<bool> work_once();
  Result<bool> send_once();
  Result<bool> receive_once();
  Result<bool> copy_once();
  [[nodiscard]] bool prepare_once() noexcept;
  template <class Bundle>
  [[nodiscard]] bool convert_once(const Bundle& bundle) noexcept;
  template <class Bundle>
  [[nodiscard]] bool may_read(const Bundle& bundle) const noexcept;
  [[nodiscard]] bool is_in_turn(const OutgoingBundle& bundle) const noexcept;
  void on_staged(const IncomingBundle& bundle);

  Context context_;
  /// As they are exchanged: by layer, what leaves a slot by exchange behind what takes its place. Once all
  /// are staged, from the layer on that is open.
  std::vector<std::unique_ptr<IncomingBundle>> incoming_;
  std::vector<std::unique_ptr<OutgoingBundle>> outgoing_;
  std::vector<std::unique_ptr<IncomingBundle>> kept_;
  std::vector<std::shared_ptr<std::vector<std::byte>>> kept_bytes_;
  // What is not done yet. Sends and receives in one order on all ranks: see `comes_before`.
  std::vector<OutgoingBundle*> open_sends_;
  std::vector<IncomingBundle*> open_receives_;
  std::vector<IncomingBundle*> open_copies_;
  std::size_t turn_ = 0;  ///< Sends, receives and copies take turns.
  bool needs_workspaces_ = false;
  bool has_acquired_ = false;
  bool is_prepared_ = true;            ///< The slots that `exchange` begins with are in the workspaces.
  std::optional<LayerId> open_layer_;  ///< In the store's workspaces.
  std::uint64_t bytes_received_ = 0;
  std::uint64_t bytes_copied_ = 0;
  std::uint64_t bytes_recovered_ = 0;
  std::uint64_t bytes_exchanged_ = 0;
  std::uint64_t slots_moved_ = 0;
};

}  // namespace trimtab
