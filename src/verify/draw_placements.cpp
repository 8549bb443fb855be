// SPDX-License-Identifier: Apache-2.0
#include "verify/draw_placements.hpp"

#include <trimtab/core/assert.hpp>

#include <algorithm>
#include <utility>
#include <vector>

namespace trimtab::verify {
namespace {

using Row = std::vector<ExpertId>;

ExpertId any_expert(std::int32_t num_experts, Random& random) {
  return ExpertId{random.within(0, num_experts - 1)};
}

Row draw_row(const PlacementShape& shape, Random& random) {
  const std::size_t vacant_one_in = random.below(5);
  Row row;
  for (std::int32_t s = 0; s < shape.num_slots; ++s) {
    const bool is_vacant = s >= shape.num_experts && vacant_one_in != 0 && random.one_in(vacant_one_in);
    row.push_back(s < shape.num_experts ? ExpertId{s}
                  : is_vacant           ? no_expert
                                        : any_expert(shape.num_experts, random));
  }
  if (!random.one_in(4)) random.shuffle(row);  // Else whole nodes lack experts.
  return row;
}

bool is_spare(const Row& row, std::size_t slot) {
  return row[slot] == no_expert || std::ranges::count(row, row[slot]) > 1;
}

/// Gives slots that can be spared `next(slot)`, each with odds of one in `n`.
template <class Next>
void change_spares(Row& row, std::size_t n, Random& random, const Next& next) {
  for (std::size_t slot = 0; slot < row.size(); ++slot) {
    if (is_spare(row, slot) && random.one_in(n)) row[slot] = next(slot);
  }
}

void change_few(Row& row, std::int32_t num_experts, Random& random) {
  for (int i = random.within(1, 3); i > 0; --i) {
    std::swap(row[random.below(row.size())], row[random.below(row.size())]);
  }
  change_spares(row, row.size() + 1, random, [&](std::size_t) { return any_expert(num_experts, random); });
}

void rotate_some(Row& row, Random& random) {
  std::vector<std::size_t> slots(row.size());
  for (std::size_t i = 0; i < slots.size(); ++i) slots[i] = i;
  random.shuffle(slots);
  slots.resize(1 + random.below(slots.size()));
  for (std::size_t i = 1; i < slots.size(); ++i) std::swap(row[slots[i - 1]], row[slots[i]]);
}

Row draw_next(Row row, const PlacementShape& shape, Random& random) {
  const ExpertId hot = any_expert(shape.num_experts, random);
  switch (random.below(7)) {
    case 0:
      break;
    case 1:
      change_few(row, shape.num_experts, random);
      break;
    case 2:
      rotate_some(row, random);
      break;
    case 3:
      change_spares(row, 2, random, [&](std::size_t) { return hot; });
      break;
    case 4:
      change_spares(row, 2, random, [](std::size_t) { return no_expert; });
      break;
    case 5:
      change_spares(row, 2, random, [&](std::size_t slot) {
        return row[slot] == no_expert ? any_expert(shape.num_experts, random) : row[slot];
      });
      break;
    default:
      return draw_row(shape, random);
  }
  return row;
}

Placement make(const PlacementShape& shape, Row all_rows) {
  auto placement = Placement::make(shape.num_layers, shape.num_slots, shape.num_experts, std::move(all_rows));
  TRIMTAB_ASSERT(placement.has_value());
  return std::move(*placement);
}

}  // namespace

Placement draw_placement(const PlacementShape& shape, Random& random) {
  Row rows;
  for (std::int32_t layer = 0; layer < shape.num_layers; ++layer) {
    const Row row = draw_row(shape, random);
    rows.insert(rows.end(), row.begin(), row.end());
  }
  return make(shape, std::move(rows));
}

Placement draw_next_placement(const Placement& placement, Random& random) {
  const PlacementShape shape{placement.num_layers(), placement.num_slots(), placement.num_experts()};
  Row rows;
  for (LayerId layer : ids<LayerId>(shape.num_layers)) {
    const auto before = placement.layer(layer);
    const Row row = draw_next({before.begin(), before.end()}, shape, random);
    rows.insert(rows.end(), row.begin(), row.end());
  }
  return make(shape, std::move(rows));
}

}  // namespace trimtab::verify
