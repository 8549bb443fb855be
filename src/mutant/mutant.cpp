// SPDX-License-Identifier: Apache-2.0
#include "mutant/mutant.hpp"

#include <algorithm>

namespace trimtab {

std::string_view to_string(Mutant mutant) noexcept {
  switch (mutant) {
    case Mutant::wrong_scale:
      return "wrong-scale";
    case Mutant::table_before_weights:
      return "table-before-weights";
    case Mutant::overwrite_before_send:
      return "overwrite-before-send";
    case Mutant::skipped_wait:
      return "skipped-wait";
    case Mutant::stale_map:
      return "stale-map";
    case Mutant::neighbour_rewritten:
      return "neighbour-rewritten";
    case Mutant::vote_ignored:
      return "vote-ignored";
    case Mutant::stale_program_resumed:
      return "stale-program-resumed";
    case Mutant::new_storage:
      return "new-storage";
  }
  return "unknown";
}

std::optional<Mutant> mutant_named(std::string_view name) noexcept {
  const auto found = std::ranges::find(all_mutants, name, [](Mutant mutant) { return to_string(mutant); });
  return found == std::end(all_mutants) ? std::nullopt : std::optional(*found);
}

std::string_view describe(Mutant mutant) noexcept {
  switch (mutant) {
    case Mutant::wrong_scale:
      return "scales stay behind when weights move";
    case Mutant::table_before_weights:
      return "the next table serves before the slots change";
    case Mutant::overwrite_before_send:
      return "slots are overwritten while others still read them";
    case Mutant::skipped_wait:
      return "slots change under a batch in flight";
    case Mutant::stale_map:
      return "counts are folded with the placement of another epoch";
    case Mutant::neighbour_rewritten:
      return "a slot that the program does not name is written";
    case Mutant::vote_ignored:
      return "a no is taken for a yes";
    case Mutant::stale_program_resumed:
      return "a rolled back program goes on from a newer epoch";
    case Mutant::new_storage:
      return "weights go to new storage, while captured graphs read the old";
  }
  return "unknown";
}

}  // namespace trimtab
