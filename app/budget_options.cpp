// SPDX-License-Identifier: Apache-2.0
#include "app/budget_options.hpp"

#include "app/commands.hpp"

#include <algorithm>
#include <limits>

namespace trimtab {

void BudgetOptions::add_to(CLI::App& verb) {
  auto* total = verb.add_option("--total-slots", total_slots,
                                "Physical slots over all layers and ranks; uneven layers get more of them")
                    ->check(in_range(1, std::numeric_limits<int>::max()))
                    ->type_name("N");
  auto* memory = verb.add_option("--memory-budget", memory_bytes,
                                 "The same as bytes of expert weights over all ranks: 40GiB, 800GB")
                     ->transform(CLI::AsSizeValue(true).description(""))
                     ->type_name("BYTES");
  auto* bytes =
      verb.add_option("--expert-bytes", expert_bytes, "Bytes of one expert in one layer: 44040192, 42MiB")
          ->transform(CLI::AsSizeValue(true).description(""))
          ->type_name("BYTES");
  memory->needs(bytes);
  for (const char* other : {"--slots", "--slots-per-rank", "--rank-slots"}) {
    total->excludes(other);
    memory->excludes(other);
  }
  total->excludes(memory);
}

std::optional<std::int64_t> BudgetOptions::slots() const {
  if (expert_bytes == 0U) usage_error("--expert-bytes", "0 < 1");
  if (!memory_bytes) return total_slots;
  const std::uint64_t slots = *memory_bytes / *expert_bytes;
  return static_cast<std::int64_t>(std::min(slots, std::uint64_t{1} << 62));
}

}  // namespace trimtab
