// SPDX-License-Identifier: Apache-2.0
#include "route/lap.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <numeric>

namespace trimtab {
namespace {

/// A run may not be so long that adding it up overflows.
constexpr std::int64_t max_laps = std::int64_t{1} << 24;

/// Numbers of each share while a lap is laid out. `Array` is of fixed size where shares are few, so that all
/// of it stays in registers: nine in ten experts with several replicas have two or three.
template <class Array>
struct Credits {
  Array weight;
  Array start;
  Array now;
  Array least;  ///< Over the ends of all assignments so far.
  Array most;
  std::int64_t total = 0;

  [[nodiscard]] std::size_t size() const noexcept { return now.size(); }
};

template <class Array>
void begin(Credits<Array>& credits, std::span<const Share> shares) {
  credits.total = 0;
  for (std::size_t i = 0; i < credits.size(); ++i) {
    credits.weight[i] = shares[i].weight;
    credits.start[i] = credits.now[i] = credits.least[i] = credits.most[i] = shares[i].credit;
    credits.total += shares[i].weight;
  }
}

/// Whether there is a way on from these credits that keeps the bounds for ever. Within h assignments a share
/// must take at least the whole part of (credit + h * weight) / total, in sum at most h unless the negative
/// ones among them weigh a whole assignment or more: they count as nothing. (Hall's condition for unit jobs
/// with release times and deadlines; only windows that begin now can fail it.)
template <class CreditOf>
bool is_open(std::size_t num_shares, std::int64_t total, CreditOf credit_of) {
  std::int64_t behind = 0;
  for (std::size_t i = 0; i < num_shares; ++i) behind += std::max<std::int64_t>(0, credit_of(i));
  return behind < total;
}

/// Ties go to the share that comes first.
template <class Array>
std::size_t most_behind(const Credits<Array>& credits) {
  std::size_t best = 0;
  std::int64_t most = credits.now[0];
  for (std::size_t i = 1; i < credits.size(); ++i) {
    best = credits.now[i] > most ? i : best;
    most = std::max(most, credits.now[i]);
  }
  return best;
}

/// Earliest deadline first among those that may take one: succeeds wherever any order does.
template <class Array>
std::size_t first_due(const Credits<Array>& credits) {
  std::size_t best = 0;
  std::int64_t fewest = std::numeric_limits<std::int64_t>::max();
  for (std::size_t i = 0; i < credits.size(); ++i) {
    if (credits.now[i] <= 0) continue;
    const std::int64_t missing = std::max<std::int64_t>(0, credits.total - credits.now[i]);
    const std::int64_t steps = (missing + credits.weight[i] - 1) / credits.weight[i];
    if (steps >= fewest) continue;
    best = i;
    fewest = steps;
  }
  return best;
}

template <class Array, class Choose>
std::size_t take_one(Credits<Array>& credits, Choose choose) {
  for (std::size_t i = 0; i < credits.size(); ++i) credits.now[i] += credits.weight[i];
  const std::size_t chosen = choose(credits);
  for (std::size_t i = 0; i < credits.size(); ++i) {
    credits.now[i] -= i == chosen ? credits.total : 0;
    credits.least[i] = std::min(credits.least[i], credits.now[i]);
    credits.most[i] = std::max(credits.most[i], credits.now[i]);
  }
  return chosen;
}

template <class Array>
bool is_within_bounds(const Credits<Array>& credits) {
  bool is_within = true;
  for (std::size_t i = 0; i < credits.size(); ++i) {
    is_within = is_within && credits.most[i] < credits.total && -credits.least[i] < credits.total;
  }
  return is_within;
}

template <class Array>
std::int64_t largest_change(const Credits<Array>& credits) {
  std::int64_t largest = 0;
  for (std::size_t i = 0; i < credits.size(); ++i) {
    largest = std::max(largest, std::abs(credits.now[i] - credits.start[i]));
  }
  return largest;
}

/// Takes the place of the end with the largest change, if that is larger.
template <class Array>
void note_end(const Credits<Array>& credits, std::span<Share> shares, LapEnds& ends,
              std::array<std::int64_t, max_lap_ends>& changes, std::uint32_t length, std::int64_t change) {
  std::size_t at = ends.count;
  if (at == max_lap_ends) {
    at = static_cast<std::size_t>(std::max_element(changes.begin(), changes.end()) - changes.begin());
  } else {
    ++ends.count;
  }
  changes[at] = change;
  ends.lengths[at] = length;
  for (std::size_t i = 0; i < credits.size(); ++i) {
    shares[i].changes[at] = credits.now[i] - credits.start[i];
    shares[i].least = credits.least[i] - credits.start[i];
    shares[i].most = credits.most[i] - credits.start[i];
  }
}

/// Plays assignment by assignment and keeps as ends the places where credits are nearly what they were.
/// @return no ends when `choose` left the bounds or came to none that has a way on.
template <class Array, class Choose>
LapEnds play(Credits<Array>& credits, std::span<Share> shares, std::span<std::uint32_t> order,
             Choose choose) {
  LapEnds ends;
  std::array<std::int64_t, max_lap_ends> changes{};
  bool has_way_on = false;
  std::int64_t worst = std::numeric_limits<std::int64_t>::max();
  for (std::size_t n = 1; n <= order.size(); ++n) {
    order[n - 1] = static_cast<std::uint32_t>(take_one(credits, choose));
    if (n < order.size() / 2 && static_cast<std::int64_t>(n) != credits.total) continue;
    const std::int64_t change = largest_change(credits);
    if (change >= worst) continue;
    if (!is_within_bounds(credits)) break;
    ends.is_endless = change == 0;
    if (ends.is_endless) ends.count = 0;
    note_end(credits, shares, ends, changes, static_cast<std::uint32_t>(n), change);
    if (ends.is_endless) return ends;
    has_way_on =
        has_way_on || is_open(credits.size(), credits.total, [&](std::size_t i) { return credits.now[i]; });
    if (ends.count == max_lap_ends) worst = *std::max_element(changes.begin(), changes.end());
  }
  return has_way_on ? ends : LapEnds{};
}

/// From the start again, by deadlines, to the one end that is best. It may have no way on that `is_open`
/// sees; there is one, and the next lap is played by deadlines too.
template <class Array>
LapEnds play_by_deadlines(Credits<Array>& credits, std::span<Share> shares, std::span<std::uint32_t> order) {
  begin(credits, shares);
  LapEnds ends;
  std::array<std::int64_t, max_lap_ends> changes{};
  for (std::uint32_t& next : order) next = static_cast<std::uint32_t>(take_one(credits, first_due<Array>));
  note_end(credits, shares, ends, changes, static_cast<std::uint32_t>(order.size()), 0);
  return ends;
}

template <class Array>
LapEnds plan_with(Credits<Array>& credits, std::span<Share> shares, bool is_first,
                  std::span<std::uint32_t> order) {
  begin(credits, shares);
  bool is_begun = !is_first;
  const auto choose = [&](const Credits<Array>& all) {
    const std::size_t next = is_begun ? most_behind(all) : 0;
    is_begun = true;
    return next;
  };
  LapEnds ends;
  if (is_open(shares.size(), credits.total, [&](std::size_t i) { return credits.start[i]; })) {
    ends = play(credits, shares, order, choose);
  }
  return ends.count > 0 ? ends : play_by_deadlines(credits, shares, order);
}

template <std::size_t num_shares>
LapEnds plan_few(std::span<Share> shares, bool is_first, std::span<std::uint32_t> order) {
  Credits<std::array<std::int64_t, num_shares>> credits{};
  return plan_with(credits, shares, is_first, order);
}

bool are_even(std::span<const Share> shares) {
  return std::all_of(shares.begin(), shares.end(),
                     [&](const Share& share) { return share.weight == shares.front().weight; });
}

/// What playing would come to, without the work, which grows with the square of the shares.
LapEnds take_turns(std::span<Share> shares, std::span<std::uint32_t> order) {
  std::iota(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(shares.size()), 0U);
  LapEnds ends{.count = 1, .is_endless = true};
  ends.lengths[0] = static_cast<std::uint32_t>(shares.size());
  for (Share& share : shares) share.changes[0] = 0;
  return ends;
}

/// How often the lap can be played to this end with every credit within bounds throughout, and throughout one
/// more.
std::int64_t count_laps(std::span<const Share> shares, std::int64_t total, std::uint32_t end) {
  std::int64_t laps = max_laps;
  for (const Share& share : shares) {
    const std::int64_t change = share.changes[end];
    const std::int64_t below = total - 1 - share.credit - share.most;
    const std::int64_t above = total - 1 + share.credit + share.least;
    if (below < 0 || above < 0) return 0;
    if (change != 0) laps = std::min(laps, (change > 0 ? below : above) / std::abs(change));
  }
  return laps;
}

}  // namespace

LapEnds LapPlanner::plan(std::span<Share> shares, bool is_first, std::span<std::uint32_t> order) {
  if (is_first && are_even(shares)) return take_turns(shares, order);
  switch (shares.size()) {
    case 2:
      return plan_few<2>(shares, is_first, order);
    case 3:
      return plan_few<3>(shares, is_first, order);
    case 4:
      return plan_few<4>(shares, is_first, order);
    default:
      break;
  }
  const std::size_t count = shares.size();
  numbers_.resize(num_arrays * count);
  const auto part = [&](std::size_t i) { return std::span(numbers_).subspan(i * count, count); };
  Credits<std::span<std::int64_t>> credits{part(0), part(1), part(2), part(3), part(4)};
  return plan_with(credits, shares, is_first, order);
}

LapRun choose_run(std::span<const Share> shares, const LapEnds& ends) {
  std::int64_t total = 0;
  for (const Share& share : shares) total += share.weight;
  LapRun best;
  for (std::uint32_t end = 0; end < ends.count; ++end) {
    LapRun run{end, count_laps(shares, total, end)};
    const auto at_end = [&](std::size_t i) {
      return shares[i].credit + run.num_laps * shares[i].changes[end];
    };
    while (run.num_laps > 0 && !is_open(shares.size(), total, at_end)) run.num_laps /= 2;
    if (run.num_laps > best.num_laps) best = run;
  }
  return best;
}

}  // namespace trimtab
