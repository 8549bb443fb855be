// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "migrate/copy_fetch.hpp"
#include "transport/mailboxes.hpp"

#include <trimtab/migrate/peer_copy_source.hpp>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace trimtab {

/// Requests go under one tag and answers under another, both into boxes of this object.
class PeerCopies final : public PeerCopySource {
 public:
  PeerCopies(const PeerCopyOptions& options, std::unique_ptr<Transport> channel,
             std::shared_ptr<const HostCopySource> copies, HostCopyPlan plan, const Liveness* liveness,
             const Clock& clock);
  ~PeerCopies() override;
  PeerCopies(const PeerCopies&) = delete;
  PeerCopies& operator=(const PeerCopies&) = delete;

  /// Call once before anything else.
  Status start();

  /// Whether anybody who is not gone for good keeps it.
  [[nodiscard]] bool holds(LayerId layer, ExpertId expert) const override;
  [[nodiscard]] bool is_verified(LayerId layer, ExpertId expert) const override {
    return holds(layer, expert);
  }
  [[nodiscard]] std::string describe() const override;
  Result<bool> progress() override;
  Status replace(std::shared_ptr<const HostCopySource> copies, HostCopyPlan plan) override;

 private:
  Status read_bundle(LayerId layer, ExpertId expert, std::span<std::byte> bundle) override;
  [[nodiscard]] std::vector<Rank> keepers_of(LayerId layer, ExpertId expert) const;
  /// One keeper, up to the outcome or the deadline.
  Status read_from(const CopyFetch::Wanted& wanted, std::span<std::byte> bundle);
  Status begin_fetch(const CopyFetch::Wanted& wanted, std::span<std::byte> bundle);
  /// Steps until there is an outcome.
  Status await_fetch();
  /// Looks what has come, and asks for more. None while the end is open; `arrived` is what is there.
  std::optional<Status> step_fetch(std::size_t& arrived);
  void end_fetch();

  // With the mutex locked:
  /// Whether there were requests, which are answered now.
  Result<bool> work();
  Result<bool> answer_requests();
  Status take_answers();
  Status ask_for_pieces();
  Status check_is_there() const;
  [[nodiscard]] bool is_gone(Rank rank) const;

  PeerCopyOptions options_;
  const Liveness* liveness_;
  const Clock& clock_;
  std::mutex reads_;          ///< One at a time; locked before `mutex_`.
  mutable std::mutex mutex_;  ///< Guards all below.
  std::unique_ptr<Transport> channel_;
  Mailboxes requests_;
  Mailboxes answers_;
  std::shared_ptr<const HostCopySource> copies_;
  HostCopyPlan plan_;
  std::vector<bool> is_lost_;  ///< By rank: the channel does not reach it any more.
  std::uint64_t num_fetches_ = 0;
  std::optional<CopyFetch> fetch_;  ///< Of the read in hand.
  std::vector<std::byte> answer_;   ///< Kept for its room.
};

}  // namespace trimtab
