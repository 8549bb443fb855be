// SPDX-License-Identifier: Apache-2.0
#include "migrate/program_room.hpp"

#include "migrate/staging.hpp"

#include <algorithm>
#include <limits>

namespace trimtab {

StepRoom::StepRoom(const ProgramInput& input)
    : input_(input),
      staging_(static_cast<std::size_t>(input.topology.num_ranks()), 0),
      stall_(staging_.size(), 0) {}

bool StepRoom::may_stall(std::size_t used, std::size_t more, std::size_t atom) const noexcept {
  if (!input_.stall_budget_bytes || used + more <= *input_.stall_budget_bytes) return true;
  return used == 0 && more <= atom;
}

bool StepRoom::fits(Rank rank, std::size_t bytes, std::size_t count) const noexcept {
  return staging_[rank.index()] + count * staged_bytes(bytes) <= input_.staging_budget_bytes &&
         may_stall(stall_[rank.index()], count * bytes, bytes);
}

std::size_t StepRoom::max_count(std::size_t bytes) const noexcept {
  if (bytes == 0) return std::numeric_limits<std::size_t>::max();
  const std::size_t staged = input_.staging_budget_bytes / staged_bytes(bytes);
  if (!input_.stall_budget_bytes) return staged;
  return std::min(staged, std::max<std::size_t>(1, *input_.stall_budget_bytes / bytes));
}

bool StepRoom::fits_exchange(Rank rank, std::size_t bytes) const noexcept {
  return staging_[rank.index()] + staged_bytes(bytes) <= input_.staging_budget_bytes &&
         may_stall(stall_[rank.index()], 2 * bytes, 2 * bytes);
}

void StepRoom::take(Rank rank, std::size_t bytes, std::size_t count) noexcept {
  add(rank, count * staged_bytes(bytes), count * bytes);
}

void StepRoom::take_exchange(Rank rank, std::size_t bytes) noexcept {
  add(rank, staged_bytes(bytes), 2 * bytes);
}

void StepRoom::clear() noexcept {
  std::ranges::fill(staging_, 0);
  std::ranges::fill(stall_, 0);
}

void StepRoom::add(Rank rank, std::size_t staging, std::size_t stall) noexcept {
  max_staging_ = std::max(max_staging_, staging_[rank.index()] += staging);
  max_stall_ = std::max(max_stall_, stall_[rank.index()] += stall);
}

}  // namespace trimtab
