// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

namespace trimtab::verify {

/// Where the ranks of a case see each other's forwards, past all transports: a forward is over on a rank once
/// every member of its view has begun it there. Zeroed memory is an empty board, so it may be shared by
/// processes. Any thread and process.
class ForwardBoard {
 public:
  static constexpr std::int32_t max_ranks = 64;

  void begin(Rank rank, std::uint32_t view, Forward forward) noexcept {
    begun_[rank.index()].store(pack(view, forward) + 1);
  }
  /// False when the rank has gone on to another view.
  [[nodiscard]] bool has_begun(Rank rank, std::uint32_t view, Forward forward) const noexcept {
    const std::uint64_t begun = begun_[rank.index()].load();
    return begun > pack(view, forward) && (begun - 1) >> forward_bits == view;
  }

  /// Notes under which epoch a forward of a view is served.
  /// @return the epoch under which another rank serves it, if that is another one.
  [[nodiscard]] std::optional<Epoch> serve(std::uint32_t view, Forward forward, Epoch epoch) noexcept;

  /// From now on the cut of the case loses everything.
  void cut() noexcept { is_cut_.store(true); }
  [[nodiscard]] bool is_cut() const noexcept { return is_cut_.load(); }

 private:
  static constexpr unsigned forward_bits = 28;
  static constexpr unsigned epoch_bits = 24;
  static constexpr std::size_t num_kept =
      256;  ///< No rank is further ahead of another: forwards are collective.

  static std::uint64_t pack(std::uint32_t view, Forward forward) noexcept {
    return (std::uint64_t{view} << forward_bits) + forward.value();
  }

  std::array<std::atomic<std::uint64_t>, static_cast<std::size_t>(max_ranks)> begun_{};  ///< 0: nothing.
  std::array<std::atomic<std::uint64_t>, num_kept> served_{};
  std::atomic<bool> is_cut_{false};
};

}  // namespace trimtab::verify
