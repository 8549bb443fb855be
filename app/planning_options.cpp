// SPDX-License-Identifier: Apache-2.0
#include "app/planning_options.hpp"

#include "app/commands.hpp"
#include "app/share_option.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>
#include <thread>

namespace trimtab {
namespace {

constexpr std::string_view spill_prefix = "group-spill=";

/// "group-spill=0.1" sets both the locality and its share.
void set_locality(PlanOptions& options, const std::string& text) {
  static const std::map<std::string, Locality, std::less<>> localities{
      {"automatic", Locality::automatic}, {"none", Locality::none}, {"group-strict", Locality::group_strict}};
  if (const auto named = localities.find(text); named != localities.end()) {
    options.locality = named->second;
    return;
  }
  const std::string_view share = std::string_view(text).substr(std::min(text.size(), spill_prefix.size()));
  const auto [end, error] = std::from_chars(share.data(), share.data() + share.size(), options.spill);
  const bool is_share = text.starts_with(spill_prefix) && error == std::errc{} &&
                        end == share.data() + share.size() && options.spill >= 0.0 && options.spill <= 1.0;
  if (!is_share) {
    usage_error(
        "--locality",
        fmt::format("'{}' is not automatic, none, group-strict or group-spill=F with F in 0..1", text));
  }
  options.locality = Locality::group_spill;
}

}  // namespace

PlanningOptions::PlanningOptions()
    : threads(static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, 1024U))) {}

void PlanningOptions::add_to(CLI::App& verb) {
  static const std::map<std::string, Effort> efforts{
      {"fast", Effort::fast}, {"default", Effort::standard}, {"thorough", Effort::thorough}};
  static const std::map<std::string, Objective> objectives{{"worst", Objective::worst},
                                                           {"weighted-mean", Objective::weighted_mean}};
  verb.add_option_function<std::string>(
          "--effort", [this](const std::string& name) { plan.effort = efforts.at(name); },
          "fast, default or thorough: one pass, or a search where it helps")
      ->check(CLI::IsMember(&efforts))
      ->option_text("NAME");
  add_share_option(verb, plan.shares,
                   "even or exact: what the placement is made for, how tokens will be shared");
  verb.add_option("--groups", plan.num_groups, "Expert groups of group-limited routing, equally large")
      ->check(in_range(1, 1 << 20))
      ->type_name("N")
      ->capture_default_str();
  verb.add_option("--top-groups", top_groups,
                  "Groups that a token's experts come from: tells nodes per token")
      ->check(in_range(1, 1 << 20))
      ->type_name("N");
  verb.add_option("--top-k", top_k, "Experts per token, for nodes per token")
      ->check(in_range(1, 1 << 20))
      ->type_name("N")
      ->capture_default_str();
  verb.add_option_function<std::string>(
          "--locality", [this](const std::string& text) { set_locality(plan, text); },
          "automatic, none, group-strict, or group-spill=F: whether a group's replicas stay inside one node")
      ->option_text("NAME");
  verb.add_flag("--spill-curve", spill_curve,
                "Also plan for a range of group-spill limits and show what each buys");
  verb.add_option_function<std::string>(
          "--objective", [this](const std::string& name) { plan.objective = objectives.at(name); },
          "worst or weighted-mean: what several load files together should make small")
      ->check(CLI::IsMember(&objectives))
      ->option_text("NAME");
  verb.add_option("--weights", plan.weights, "Weight of each load file under weighted-mean")
      ->delimiter(',')
      ->check(CLI::NonNegativeNumber)
      ->type_name("X,X,…");
  verb.add_option("--variance", variance,
                  "JSON file like LOADS with the variance of each load: plan for samples")
      ->type_name("FILE");
  verb.add_option("--samples", samples,
                  "Load scenarios to draw for --variance, the loads themselves included")
      ->check(in_range(2, 1000))
      ->type_name("N")
      ->capture_default_str();
  verb.add_flag("--allow-vacant", plan.allow_vacant,
                "Leave a slot vacant (-1) rather than put an expert on a rank twice");
  verb.add_option("--threads", threads, "Threads to plan with; the plan does not depend on it")
      ->check(in_range(1, 1024))
      ->type_name("N")
      ->capture_default_str();
}

void PlanningOptions::check(std::size_t num_scenarios, std::int32_t num_experts,
                            const Topology& topology) const {
  if (num_experts % plan.num_groups != 0) {
    usage_error("--groups", fmt::format("{} groups do not divide {} experts", plan.num_groups, num_experts));
  }
  if (top_groups && *top_groups > plan.num_groups) {
    usage_error("--top-groups", fmt::format("{} > {} groups", *top_groups, plan.num_groups));
  }
  if (spill_curve && (plan.num_groups == 1 || plan.num_groups % topology.num_nodes() != 0)) {
    usage_error("--spill-curve", fmt::format("needs nodes that divide the groups: {} nodes, {} groups",
                                             topology.num_nodes(), plan.num_groups));
  }
  const bool is_by_group = plan.locality == Locality::group_strict || plan.locality == Locality::group_spill;
  if (is_by_group && plan.num_groups % topology.num_nodes() != 0) {
    usage_error("--locality", fmt::format("{} needs nodes that divide the groups: {} nodes, {} groups",
                                          to_string(plan.locality), topology.num_nodes(), plan.num_groups));
  }
  if (!plan.weights.empty() && !variance.empty()) usage_error("--weights", "excludes --variance");
  if (!plan.weights.empty() && plan.weights.size() != num_scenarios) {
    usage_error("--weights", fmt::format("{} weights for {} load files", plan.weights.size(), num_scenarios));
  }
  if (!plan.weights.empty() && plan.objective != Objective::weighted_mean) {
    usage_error("--weights", "needs --objective weighted-mean");
  }
}

std::optional<GroupLimit> PlanningOptions::group_limit() const {
  if (!top_groups) return std::nullopt;
  return GroupLimit{plan.num_groups, *top_groups, top_k};
}

}  // namespace trimtab
