// SPDX-License-Identifier: Apache-2.0
#include "protocol_tap.hpp"
#include "support/cluster.hpp"
#include "support/placements.hpp"
#include "transition_list.hpp"

#include <trimtab/transport/faulty.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <sstream>

namespace trimtab::test {
namespace {

using namespace std::chrono_literals;

constexpr Clock::duration deadline = 1s;
constexpr std::size_t bundle_bytes = 192;
constexpr Tag first_attempt{2};  // Payload tag of attempt 1.

struct Listed {
  Rows code;
  Rows not_yet;
};

Listed read_list() {
  auto listed = read_transitions();
  return {listed["code"], listed["model"]};
}

/// What the coordinator did, read from what it said to one member. It says something at each transition.
std::vector<std::string> coordinator_rows(const TapScript& script, const TransitionLog& own) {
  std::vector<std::string> rows;
  std::string_view phase = "idle";
  const auto enter = [&](std::string_view event, std::string_view next) {
    rows.push_back(fmt::format("coordinator {} {} {}", phase, event, next));
    phase = next;
  };
  for (std::size_t i = 0; i < script.said.size(); ++i) {
    const Message& message = script.said[i];
    if (script.said_to[i] != Rank{1}) continue;
    if (message.kind == MessageKind::propose) enter("begin", "agreeing");
    if (message.kind == MessageKind::start) enter("all_agree", "voting");
    if (message.kind == MessageKind::release) enter("all_acknowledge", "idle");
    if (message.kind != MessageKind::decision) continue;
    if (message.yes != 0) {
      enter("all_yes", "committing");
    } else {
      enter(static_cast<Errc>(message.reason) == Errc::timeout ? "deadline" : "refusal", "idle");
    }
  }
  const bool is_late = !own.rows.empty() && own.rows.back().ends_with("deadline in_doubt");
  if (is_late && phase == "committing") enter("deadline", "in_doubt");
  return rows;
}

/// Real engines whose messages and transitions are seen, with faults on the payloads of one rank.
class TracedCluster {
 public:
  struct Setup {
    Topology topology = uniform(2, 1, 4);
    Placement before = one_layer(4, {0, 1, 2, 3});
    std::size_t staging_budget_bytes = 8 * bundle_bytes;
    std::vector<std::vector<Fault>> faults = {};  ///< By rank.
  };

  explicit TracedCluster(Setup setup)
      : setup_(std::move(setup)), logs_(static_cast<std::size_t>(setup_.topology.num_ranks())) {
    setup_.faults.resize(logs_.size());
    EngineOptions options;
    options.staging_budget_bytes = setup_.staging_budget_bytes;
    options.deadline = deadline;
    options.verify_sample = 100;
    cluster_.emplace(
        setup_.topology, setup_.before, options,
        [this](Rank rank, std::unique_ptr<Transport> channel) { return wrap(rank, std::move(channel)); });
    for (std::size_t r = 0; r < logs_.size(); ++r) cluster_->engine(r).set_observer(&logs_[r]);
  }
  TracedCluster() : TracedCluster(Setup{}) {}

  [[nodiscard]] Cluster& cluster() { return *cluster_; }
  [[nodiscard]] TapScript& script(std::size_t rank) { return *scripts_[rank]; }
  [[nodiscard]] Tap& tap(std::size_t rank) { return *taps_[rank]; }
  [[nodiscard]] FaultScript& faults(std::size_t rank) { return *fault_scripts_[rank]; }
  [[nodiscard]] const TransitionLog& log(std::size_t rank) const { return logs_[rank]; }

  void begin_on(std::size_t rank, const Placement& to) {
    ASSERT_TRUE(cluster_->engine(rank).begin(cluster_->make_program(to)));
  }
  /// Lets every deadline pass that can.
  bool settle() { return cluster_->run_until_idle(deadline / 10, 100); }
  void tick_until(std::size_t rank, StepState state) {
    for (int i = 0; i < 100 && cluster_->engine(rank).health().state != state; ++i) cluster_->tick();
    ASSERT_EQ(cluster_->engine(rank).health().state, state);
  }

  [[nodiscard]] std::vector<std::string> coordinator() const {
    return coordinator_rows(*scripts_.front(), logs_.front());
  }
  [[nodiscard]] Rows rows() const {
    Rows rows;
    for (const TransitionLog& log : logs_) rows.insert(log.rows.begin(), log.rows.end());
    const std::vector<std::string> coordinator_did = coordinator();
    rows.insert(coordinator_did.begin(), coordinator_did.end());
    return rows;
  }

 private:
  std::unique_ptr<Transport> wrap(Rank rank, std::unique_ptr<Transport> channel) {
    fault_scripts_.push_back(std::make_shared<FaultScript>(setup_.faults[rank.index()]));
    channel = std::make_unique<FaultyTransport>(std::move(channel), fault_scripts_.back());
    scripts_.push_back(std::make_shared<TapScript>());
    auto tap = std::make_unique<Tap>(std::move(channel), scripts_.back());
    taps_.push_back(tap.get());
    return tap;
  }

  Setup setup_;
  std::vector<std::shared_ptr<FaultScript>> fault_scripts_;
  std::vector<std::shared_ptr<TapScript>> scripts_;
  std::vector<Tap*> taps_;  ///< Owned by the engines.
  std::vector<TransitionLog> logs_;
  std::optional<Cluster> cluster_;
};

const Placement swapped = one_layer(4, {0, 2, 1, 3});
const Placement other_swap = one_layer(4, {0, 3, 2, 1});

/// Of a rank's first attempt.
Fault payload_fault(FaultAction action) {
  return {.match = {.side = Side::send, .tag = first_attempt}, .action = action, .occurrence = 2};
}

TracedCluster with_payload_faults(std::vector<std::vector<Fault>> faults) {
  return TracedCluster({.faults = std::move(faults)});
}

Rows commits() {
  TracedCluster traced;
  traced.cluster().begin(swapped);
  EXPECT_TRUE(traced.settle());
  EXPECT_EQ(traced.cluster().find_difference(swapped), "");
  return traced.rows();
}

Rows commits_two_steps() {
  const Placement before = random_placement(2, 4, 4, 1);
  const Placement after = random_placement(2, 4, 4, 3);
  TracedCluster traced({.before = before, .staging_budget_bytes = 2 * bundle_bytes});
  EXPECT_EQ(traced.cluster().make_program(after).steps.size(), 2U);
  traced.cluster().begin(after);
  EXPECT_TRUE(traced.settle());
  EXPECT_EQ(traced.cluster().find_difference(after), "");
  return traced.rows();
}

Rows has_two_programs() {
  TracedCluster traced;
  traced.begin_on(0, swapped);
  traced.begin_on(1, other_swap);
  EXPECT_TRUE(traced.settle());
  return traced.rows();
}

Rows has_a_program_on(std::size_t rank) {
  TracedCluster traced;
  traced.begin_on(rank, swapped);
  EXPECT_TRUE(traced.settle());
  return traced.rows();
}

Rows gets_a_damaged_payload() {
  TracedCluster traced = with_payload_faults({{payload_fault(FaultAction::corrupt)}});
  traced.cluster().begin(swapped);
  EXPECT_TRUE(traced.settle());
  return traced.rows();
}

/// Rank 0 still waits for bytes when rank 1 says no.
Rows is_refused_while_staging() {
  TracedCluster traced =
      with_payload_faults({{payload_fault(FaultAction::corrupt)}, {payload_fault(FaultAction::drop)}});
  traced.cluster().begin(swapped);
  EXPECT_TRUE(traced.settle());
  return traced.rows();
}

/// A message kind of one rank never arrives.
Rows loses(MessageKind kind, std::size_t rank, std::vector<std::vector<Fault>> faults = {}) {
  TracedCluster traced = with_payload_faults(std::move(faults));
  traced.script(rank).lost = {kind};
  traced.cluster().begin(swapped);
  traced.settle();
  return traced.rows();
}

Rows has_a_batch_that_does_not_end() {
  TracedCluster traced;
  TableReader reader = traced.cluster().publisher(1).make_reader();
  const TableLease in_flight = reader.acquire();
  traced.cluster().begin(swapped);
  EXPECT_FALSE(traced.settle());
  return traced.rows();
}

/// Something writes into staging between the vote and the commit.
Rows is_damaged_after_the_vote() {
  TracedCluster traced;
  traced.cluster().begin(swapped);
  traced.tick_until(1, StepState::staged);
  traced.script(1).staged.back().front() ^= std::byte{1};
  EXPECT_FALSE(traced.settle());
  return traced.rows();
}

/// The receives of attempt 1 cannot be taken back, and there is staging for one bundle only.
Rows finds_staging_in_quarantine() {
  TracedCluster traced(
      {.staging_budget_bytes = bundle_bytes, .faults = {{payload_fault(FaultAction::drop)}}});
  traced.script(1).ignores_cancel = true;
  for (int attempt = 0; attempt < 2; ++attempt) {
    traced.cluster().begin(swapped);
    EXPECT_TRUE(traced.settle());
  }
  EXPECT_EQ(traced.cluster().find_difference(one_layer(4, {0, 1, 2, 3})), "");
  return traced.rows();
}

Rows has_a_broken_channel() {
  TracedCluster traced;
  traced.script(1).fails = Errc::io;
  traced.cluster().begin(swapped);
  EXPECT_FALSE(traced.settle());
  return traced.rows();
}

/// Attempts 1 to 3 are refused, damaged and committed; attempt 4 runs while `kind` of all of them is repeated
/// to and fro at every tick. What happens in it must be what happens without.
std::vector<std::string> fourth_attempt(std::optional<MessageKind> kind) {
  Fault damage = payload_fault(FaultAction::corrupt);
  damage.match.tag = Tag{3};
  TracedCluster traced = with_payload_faults({{damage}});
  traced.begin_on(0, swapped);
  traced.begin_on(1, other_swap);
  EXPECT_TRUE(traced.settle());
  for (int attempt = 2; attempt < 4; ++attempt) {
    traced.cluster().begin(swapped);
    EXPECT_TRUE(traced.settle());
  }
  EXPECT_EQ(traced.cluster().find_difference(swapped), "");
  const std::vector<TapScript> old{traced.script(0), traced.script(1)};
  const std::size_t coordinator_rows_before = traced.coordinator().size();
  const std::vector<std::size_t> rows_before{traced.log(0).rows.size(), traced.log(1).rows.size()};
  std::size_t num_repeated = 0;

  traced.cluster().begin(other_swap);
  for (int i = 0; i < 60; ++i) {
    for (std::size_t r = 0; r < old.size(); ++r) {
      for (const Message& message : old[r].said) {
        if (message.kind != kind) continue;
        traced.tap(r).say_again(message, Rank{r == 0 ? 1 : 0});
        ++num_repeated;
      }
    }
    traced.cluster().tick();
    traced.cluster().clock().advance(deadline / 10);
  }
  EXPECT_EQ(num_repeated > 0, kind.has_value());
  EXPECT_EQ(traced.cluster().find_difference(other_swap), "");

  std::vector<std::string> rows;
  for (std::size_t r = 0; r < 2; ++r) {
    const auto& all = traced.log(r).rows;
    rows.insert(rows.end(), all.begin() + static_cast<std::ptrdiff_t>(rows_before[r]), all.end());
  }
  const auto coordinator_did = traced.coordinator();
  rows.insert(rows.end(), coordinator_did.begin() + static_cast<std::ptrdiff_t>(coordinator_rows_before),
              coordinator_did.end());
  return rows;
}

struct Scenario {
  const char* row;  ///< What it must show, among others.
  std::function<Rows()> run;
};

std::vector<Scenario> scenarios() {
  const Fault damage = payload_fault(FaultAction::corrupt);
  const Fault loss = payload_fault(FaultAction::drop);
  return {
      {"member idle begin proposed", commits},
      {"member proposed start staging", commits},
      {"member staging vote_yes staged", commits},
      {"member staged commit draining", commits},
      {"member draining drained committing", commits},
      {"member committing published committed", commits},
      {"member committed release idle", commits},
      {"coordinator idle begin agreeing", commits},
      {"coordinator agreeing all_agree voting", commits},
      {"coordinator voting all_yes committing", commits},
      {"coordinator committing all_acknowledge idle", commits},
      {"member committed release proposed", commits_two_steps},
      {"member proposed abort idle", has_two_programs},
      {"coordinator agreeing refusal idle", has_two_programs},
      {"coordinator agreeing deadline idle", [] { return has_a_program_on(0); }},
      {"member proposed deadline idle", [] { return has_a_program_on(1); }},
      {"member staging vote_no staged", gets_a_damaged_payload},
      {"member staged abort idle", gets_a_damaged_payload},
      {"coordinator voting refusal idle", gets_a_damaged_payload},
      {"member staging abort idle", is_refused_while_staging},
      {"coordinator voting deadline idle", [] { return loses(MessageKind::vote, 1); }},
      {"member staging deadline idle", [=] { return loses(MessageKind::decision, 0, {{loss}}); }},
      {"member staged deadline idle", [=] { return loses(MessageKind::decision, 0, {{damage}}); }},
      {"member staged deadline in_doubt", [] { return loses(MessageKind::decision, 0); }},
      {"coordinator committing deadline in_doubt", [] { return loses(MessageKind::acknowledgement, 1); }},
      {"member committed deadline in_doubt", [] { return loses(MessageKind::release, 0); }},
      {"member draining deadline in_doubt", has_a_batch_that_does_not_end},
      {"member committing unverified in_doubt", is_damaged_after_the_vote},
      {"member proposed no_room staged", finds_staging_in_quarantine},
      {"member any failed in_doubt", has_a_broken_channel},
  };
}

constexpr MessageKind all_kinds[] = {
    MessageKind::propose,  MessageKind::agreement,       MessageKind::start,  MessageKind::vote,
    MessageKind::decision, MessageKind::acknowledgement, MessageKind::release};

bool is_said_to_coordinator(MessageKind kind) {
  return kind == MessageKind::agreement || kind == MessageKind::vote || kind == MessageKind::acknowledgement;
}

void expect_listed(const Rows& rows, const Listed& listed, const std::string& where) {
  for (const std::string& row : rows) {
    EXPECT_TRUE(contains_any(listed.code, spellings(row)))
        << where << " made a transition that the list lacks: " << row;
  }
}

TEST(ProtocolTrace, EnginesMakeExactlyTheTransitionsThatTheModelSaysTheyHave) {
  const Listed listed = read_list();
  ASSERT_FALSE(listed.code.empty());
  Rows seen;
  for (const Scenario& scenario : scenarios()) {
    Rows rows;
    for (const std::string& row : scenario.run()) rows.merge(spellings(row));
    EXPECT_TRUE(rows.contains(scenario.row)) << "not shown by its scenario: " << scenario.row;
    expect_listed(scenario.run(), listed, scenario.row);
    seen.merge(rows);
  }
  const std::vector<std::string> undisturbed = fourth_attempt(std::nullopt);
  for (MessageKind kind : all_kinds) {
    EXPECT_EQ(fourth_attempt(kind), undisturbed) << "an old " << to_string(kind) << " was not ignored";
    seen.insert(fmt::format("ignored {} {} any", is_said_to_coordinator(kind) ? "coordinator" : "member",
                            to_string(kind)));
  }
  for (const std::string& row : listed.code) EXPECT_TRUE(seen.contains(row)) << "no engine did: " << row;
  for (const std::string& row : listed.not_yet)
    EXPECT_FALSE(seen.contains(row)) << "an engine does it; strike its model: " << row;
}

TEST(ProtocolTrace, ALostReleaseIsImpliedByTheProposalOfTheNextStep) {
  const Placement after = random_placement(2, 4, 4, 3);
  // What rank 0 says to rank 1: propose, start, decision, release, propose, …
  const Fault loss{.match = {.side = Side::send, .tag = ControlChannel::tag}, .occurrence = 3};
  TracedCluster traced(
      {.before = random_placement(2, 4, 4, 1), .staging_budget_bytes = 2 * bundle_bytes, .faults = {{loss}}});
  traced.cluster().begin(after);
  ASSERT_TRUE(traced.settle());
  EXPECT_EQ(traced.faults(0).num_struck(), 1U);
  EXPECT_EQ(traced.script(0).said[3].kind, MessageKind::release);
  EXPECT_EQ(traced.cluster().find_difference(after), "");
  EXPECT_EQ(traced.cluster().engine(1).counters().steps_committed, 2U);
  EXPECT_EQ(traced.cluster().engine(1).counters().steps_rolled_back, 0U);
}

TEST(ProtocolTrace, ALostAbortIsImpliedByTheNextProposal) {
  TracedCluster traced = with_payload_faults({{}, {payload_fault(FaultAction::corrupt)}});
  traced.script(0).lost = {MessageKind::decision};
  traced.cluster().begin(swapped);
  traced.tick_until(0, StepState::idle);  // Rank 0 was the one to say no.
  ASSERT_EQ(traced.cluster().engine(1).health().state, StepState::staging);
  traced.script(0).lost.clear();
  traced.begin_on(0, swapped);
  traced.tick_until(1, StepState::idle);
  EXPECT_EQ(traced.cluster().engine(1).health().last_failure->code, Errc::cancelled);
  traced.begin_on(1, swapped);
  ASSERT_TRUE(traced.settle());
  EXPECT_EQ(traced.cluster().find_difference(swapped), "");
}

/// Messages and payloads lost, damaged, repeated, late or refused, one in each run, in programs of two steps.
TEST(ProtocolTrace, NoSingleFaultLeadsToATransitionThatTheModelLacks) {
  const Listed listed = read_list();
  const Placement before = random_placement(2, 9, 5, 1);
  const Placement after = random_placement(2, 9, 5, 2);
  std::size_t num_faults = 0;
  for (FaultAction action : {FaultAction::drop, FaultAction::corrupt, FaultAction::duplicate,
                             FaultAction::delay, FaultAction::fail}) {
    for (std::size_t rank = 0; rank < 3; ++rank) {
      for (std::uint64_t occurrence = 0;; ++occurrence) {
        std::vector<std::vector<Fault>> faults(3);
        faults[rank] = {{.match = {.side = Side::send}, .action = action, .occurrence = occurrence}};
        TracedCluster traced({.topology = uniform(3, 1, 9),
                              .before = before,
                              .staging_budget_bytes = 3 * bundle_bytes,
                              .faults = std::move(faults)});
        ASSERT_EQ(traced.cluster().make_program(after).steps.size(), 2U);
        traced.cluster().begin(after);
        traced.settle();
        if (traced.faults(rank).num_struck() == 0) break;  // Beyond the last message.
        traced.faults(rank).release_delayed();
        traced.settle();
        ++num_faults;
        expect_listed(
            traced.rows(), listed,
            fmt::format("action {} on rank {}, message {}", static_cast<int>(action), rank, occurrence));
        if (HasFailure()) return;
      }
    }
  }
  EXPECT_GT(num_faults, 300U);
}

}  // namespace
}  // namespace trimtab::test
