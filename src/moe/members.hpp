// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "moe/arm.hpp"

#include <trimtab/core/clock.hpp>
#include <trimtab/core/result.hpp>
#include <trimtab/transport/collectives.hpp>
#include <trimtab/transport/transport.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace trimtab::moe {

/// Both arms of a rank, by ArmId.
using Arms = std::array<std::unique_ptr<Arm>, 2>;

/// The ranks that serve, and what they do together between forwards. With ServiceOptions::survival it is done
/// without ranks that are lost meanwhile: by all that are left or by none, each meeting in the same order.
///
/// One rank's, on its thread. Borrows everything given; once both arms are there it may be called. Errors:
/// what a meeting failed of when no rank is lost; `infeasible` when less than half of the ranks are left.
class Members {
 public:
  /// Those that have met once may be asked to do it again with those that have not: owns all it needs.
  using Meeting = std::function<Status(const CollectiveOptions&)>;

  Members(const ServiceOptions& options, Transport& root, const Clock& clock, const Arms& arms);
  Members(const Members&) = delete;
  Members& operator=(const Members&) = delete;

  /// Ascending.
  [[nodiscard]] const std::vector<Rank>& ranks() const noexcept { return ranks_; }
  [[nodiscard]] bool has_lost_rank() const noexcept;
  [[nodiscard]] std::uint32_t view() const noexcept { return view_; }
  /// Fails as soon as a rank is lost; for whatever waits. None without survival.
  [[nodiscard]] const std::function<Status()>& watch() const noexcept { return watch_; }

  Status meet(const Meeting& meeting);
  /// A barrier. False when a rank was lost before it, and `goes_on` says no: asked after each loss.
  Result<bool> meet_unless(const std::function<Result<bool>()>& goes_on);
  Status sum(std::span<std::int64_t> values);
  /// In the order of the ranks.
  Result<std::vector<std::int64_t>> gather(std::span<const std::int64_t> mine);

  /// After an error that the loss of a rank may have caused: goes on without it.
  Status survive(const Status& failed);
  /// The on arm is in a new view.
  Status enter_view();
  /// Whether others had met once more than this rank when the view began.
  [[nodiscard]] bool is_behind() const noexcept { return most_meetings_ > num_meetings_; }

  /// The last call.
  void part();

 private:
  [[nodiscard]] CollectiveOptions collective() const;
  [[nodiscard]] Meeting barrier_of_all();
  void count(const Meeting& meeting);
  Status catch_up();

  const ServiceOptions& options_;
  Transport& root_;
  const Clock& clock_;
  const Arms& arms_;
  std::function<Status()> watch_;
  std::vector<Rank> ranks_;
  std::uint32_t view_ = 0;
  std::int64_t num_meetings_ = 0;
  std::int64_t most_meetings_ = 0;  ///< Over the ranks, when the view began.
  Meeting last_meeting_;
};

}  // namespace trimtab::moe
