// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/core/result.hpp>
#include <trimtab/core/topology.hpp>

#include <cstdint>
#include <memory>
#include <span>

namespace trimtab {

/// The largest sum of loads that a split in whole assignments takes: 2^53, below which doubles hold every
/// whole number.
inline constexpr std::int64_t max_split_total = std::int64_t{1} << 53;

/// How far a split is refined.
enum class SplitDepth : std::uint8_t {
  all,      ///< Every rank is as low as it can be without raising one that is not lower: leaves room against
            ///< noise.
  fullest,  ///< Only the fullest ranks; the others stay where they came to be. Faster where loads are very
            ///< uneven.
};

/// What one layer's split reaches, and why it is not better. The spans are valid until the next call of the
/// solver.
struct SplitResult {
  /// The largest load / speed of a live rank that any split must have, in fractions of an assignment too: the
  /// load of `tight_experts` over the speed of `tight_ranks`.
  double optimum = 0.0;
  std::int64_t max_load = 0;  ///< Of the fullest rank, in whole assignments: ceil(optimum) at equal speeds.
  double max_pressure = 0.0;  ///< Largest load / speed of this split: least possible in whole assignments.
  std::span<const Rank> tight_ranks;        ///< Ascending: the set of ranks that holds the optimum up.
  std::span<const ExpertId> tight_experts;  ///< Ascending: experts with load that no other rank can take.
};

/// The exact split of one layer's load over the replicas of a fixed placement: whole assignments, and no
/// split has a smaller largest load / speed of a rank. Below the fullest ranks it is refined the same way: by
/// no chain of replicas can an assignment get from a rank to one that would then still be below what the
/// first was (load / speed), so at equal speeds no split has smaller rank loads in descending lexicographic
/// order. Replicas of an expert on one rank share its tokens there evenly. Slots of dead ranks get nothing.
///
/// Prepared once for a placement, then solved for any loads without allocating. One thread; solvers are
/// independent of each other. docs/design/0008-exact-split.md has the method, its sources and the proofs.
class SplitSolver {
 public:
  /// @param row  expert of each slot of one layer, `no_expert` where vacant; borrowed for this call only.
  /// @return `invalid_argument` naming the sizes, or slot and value for an expert out of range; `infeasible`
  ///         naming an expert without live slot.
  static Result<SplitSolver> make(std::span<const ExpertId> row, std::int32_t num_experts,
                                  const Topology& topology);
  SplitSolver(SplitSolver&&) noexcept;
  SplitSolver& operator=(SplitSolver&&) noexcept;
  ~SplitSolver();

  /// Fills `assignments` [slots] with whole numbers that add up to each expert's load. Depends on placement
  /// and loads alone, not on earlier calls. Zero loads give zeros.
  /// @return `invalid_argument` naming expert and value of a negative load, a sum above `max_split_total`, or
  ///         sizes that are not those of the placement; then `assignments` is untouched.
  [[nodiscard]] Result<SplitResult> solve(std::span<const std::int64_t> loads,
                                          std::span<std::int64_t> assignments,
                                          SplitDepth depth = SplitDepth::all);

  /// The same from the shares of an earlier split, which is faster the less the loads have changed since and
  /// changes less. Depends on placement, loads and `start` alone. `start` may be `assignments`.
  /// @param start  [slots], none negative; an expert whose live slots all have 0 starts from even shares
  [[nodiscard]] Result<SplitResult> solve_from(std::span<const std::int64_t> start,
                                               std::span<const std::int64_t> loads,
                                               std::span<std::int64_t> assignments,
                                               SplitDepth depth = SplitDepth::all);

  /// The optimum alone, for loads that need not be whole: the largest load / speed that any split must have.
  /// Exact up to rounding when the loads are whole with a sum up to 2^52, else within a factor of 1 + 1e-12
  /// below. Precondition: one finite load >= 0 per expert.
  [[nodiscard]] double optimum(std::span<const double> loads);

 private:
  struct State;
  explicit SplitSolver(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace trimtab
