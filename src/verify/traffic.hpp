// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "verify/case.hpp"
#include "verify/checked_rank.hpp"
#include "verify/random.hpp"

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace trimtab::verify {

/// The forwards of all ranks, played by one thread: collective, so that no rank ends one before all that
/// still serve have begun it; several of one rank may be in flight. Sees under which epoch each is served
/// (M2).
class Traffic {
 public:
  using Ranks = std::span<const std::unique_ptr<CheckedRank>>;

  Traffic(const Pace& pace, Ranks ranks)
      : pace_(pace), ranks_(ranks), next_(ranks.size()), in_flight_(ranks.size()) {}

  /// One turn of a rank: the engine is called, and the next forward begins if it is admitted.
  /// @return what is wrong about its epoch, or "".
  std::string take_turn(std::size_t rank, std::uint64_t tick, Random& random);

  /// Ends the batches on `rank` that may end.
  void end_batches(std::size_t rank, std::uint64_t tick);

  /// Sometimes all ranks agree to go on with a larger number, as a service without traffic does.
  void skip_forwards(Random& random);

 private:
  struct Batch {
    Forward forward;
    std::uint64_t ends_at;  ///< Tick.
  };

  [[nodiscard]] bool has_begun_everywhere(Forward forward) const;

  const Pace& pace_;
  Ranks ranks_;
  std::vector<Forward> next_;
  std::vector<std::deque<Batch>> in_flight_;
  std::map<Forward, Epoch> epochs_;  ///< Of the first rank that began each.
};

}  // namespace trimtab::verify
