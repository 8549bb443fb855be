// SPDX-License-Identifier: Apache-2.0
// An engine that answers a shift in traffic by shares alone: no weight moves. Its statistics callback hands
// counts to a Splitter, which publishes new shares; its forward thread dispatches with whatever table is
// current.

#include <trimtab/balance/splitter.hpp>
#include <trimtab/plan/planner.hpp>
#include <trimtab/route/router.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

using namespace trimtab;

namespace {

constexpr std::int32_t num_experts = 8;
constexpr std::int32_t num_slots = 12;
constexpr std::int32_t num_ranks = 4;
constexpr std::int32_t top_k = 2;

/// What a router's gate would choose: tokens whose experts follow `popularity`.
std::vector<std::int32_t> choose_experts(const std::vector<std::int64_t>& popularity) {
  std::vector<std::int32_t> ids;
  for (std::int32_t expert = 0; expert < num_experts; ++expert) {
    ids.insert(ids.end(), static_cast<std::size_t>(popularity[static_cast<std::size_t>(expert)]), expert);
  }
  return ids;  // [tokens][top_k]; the order does not matter here.
}

/// Largest over mean rank load of what was dispatched.
double imbalance_of(const std::vector<std::int32_t>& slots, const Topology& ranks) {
  std::vector<double> loads(num_ranks);
  for (const std::int32_t slot : slots) loads[ranks.rank_of(SlotId{slot}).index()] += 1.0;
  return *std::max_element(loads.begin(), loads.end()) * num_ranks / static_cast<double>(slots.size());
}

int fail(const Error& error) {
  std::fprintf(stderr, "%s\n", error.message.c_str());
  return 1;
}

}  // namespace

int main() {
  const std::vector<std::int64_t> before{200, 20, 20, 20, 80, 20, 20, 20};
  const std::vector<std::int64_t> after{120, 30, 20, 20, 130, 20, 40, 20};  // The traffic shifts.

  // Once: a placement whose replicas connect the ranks, and a table with even shares.
  const auto loads = LoadMatrix::make(1, num_experts, {before.begin(), before.end()});
  const auto ranks = Topology::make_uniform(num_ranks, 1, num_slots);
  PlanOptions options;
  options.shares = ShareMode::exact;
  SerialExecutor executor;
  const auto plan = plan_rebalance(*loads, *ranks, options, executor);
  if (!plan) return fail(plan.error());
  auto table = RoutingTable::compile(plan->placement, *ranks, {Epoch{0}, 0});
  if (!table) return fail(table.error());
  TablePublisher publisher(*std::move(table));
  auto splitter = Splitter::make(plan->placement, *ranks, Epoch{0});
  if (!splitter) return fail(splitter.error());

  TableReader reader = publisher.make_reader();  // One for each forward thread,
  Router router(1, num_experts, Rank{0});        // and a router, which keeps its place in the shares.
  const std::vector<std::int32_t> experts = choose_experts(after);
  std::vector<std::int32_t> slots(experts.size());
  std::array<double, 2> imbalance{};
  for (double& measured : imbalance) {
    const TableLease current = reader.acquire();  // Held as long as the batch is in flight.
    const Batch batch{.top_k = top_k};
    if (Status routed = router.dispatch_raw(*current, LayerId{0}, experts, slots, batch); !routed) {
      return fail(routed.error());
    }
    measured = imbalance_of(slots, *ranks);

    // From the statistics callback, after the same forward on every rank: counts summed over all ranks.
    if (auto published = splitter->solve_and_publish(after, publisher, executor); !published) {
      return fail(published.error());
    }
  }
  std::printf("imbalance after the shift: %.3f with even shares, %.3f with the exact split\n", imbalance[0],
              imbalance[1]);
  return imbalance[1] < imbalance[0] ? 0 : 1;
}
