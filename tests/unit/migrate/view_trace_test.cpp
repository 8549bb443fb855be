// SPDX-License-Identifier: Apache-2.0
// Deaths, stops and losses at every moment of a migration: what the engines do must be what the model has,
// and survivors must end in one state.
#include "migrate/take_over.hpp"
#include "support/cluster.hpp"
#include "support/placements.hpp"
#include "transition_list.hpp"

#include <trimtab/transport/decorator.hpp>
#include <trimtab/transport/faulty.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

namespace trimtab::test {
namespace {

using namespace std::chrono_literals;

constexpr Clock::duration deadline = 2s;
constexpr HeartbeatOptions heartbeat{.period = 100ms, .misses = 3};
constexpr Clock::duration tick = 25ms;
constexpr std::size_t num_ranks = 4;

/// Reads what a rank says in take-overs.
class ViewTap final : public TransportDecorator {
 public:
  ViewTap(std::unique_ptr<Transport> inner, std::shared_ptr<std::vector<std::string>> rows)
      : TransportDecorator(std::move(inner)), rows_(std::move(rows)) {}

  Result<Ticket> post(std::span<const Leg> legs) override {
    for (const Leg& leg : legs) {
      if (leg.tag == TakeOver::tag && leg.side == Side::send) note(leg);
    }
    return inner().post(legs);
  }

 private:
  void note(const Leg& leg) {
    ViewMessage message;
    std::memcpy(&message, leg.memory.data(), sizeof message);
    constexpr const char* rows[]{"taker idle deadline preparing", "member any promise any",
                                 "taker preparing quorum_promises proposing", "member any accept any",
                                 "taker proposing quorum_accepts chosen"};
    rows_->emplace_back(rows[static_cast<std::size_t>(message.kind) - 1]);
  }

  std::shared_ptr<std::vector<std::string>> rows_;
};

enum class BlowKind : std::uint8_t { none, death, stop };

struct Blow {
  BlowKind kind = BlowKind::death;
  std::size_t rank = 0;
  int tick = 0;                                      ///< Of the migration.
  std::size_t ranks_driven = 0;                      ///< In this tick, before it strikes.
  std::optional<std::uint64_t> lost = std::nullopt;  ///< Which message of rank `loser`.
  std::size_t loser = 0;
  int pause = 0;  ///< Ticks for which rank `paused` does nothing; the blow strikes halfway.
  std::size_t paused = 0;

  [[nodiscard]] std::string what() const {
    constexpr const char* names[]{"nothing", "death", "stop"};
    return fmt::format(
        "{} of rank {} in tick {} after {} ranks; message {} of rank {} lost; rank {} paused "
        "for {} ticks",
        names[static_cast<int>(kind)], rank, tick, ranks_driven, lost ? std::to_string(*lost) : "none", loser,
        paused, pause);
  }
};

/// Every expert lies on two ranks that keep it, so that any rank may die between any two steps; two more
/// slots of each rank change.
Placement make_placement(const std::vector<std::int32_t>& changing) {
  std::vector<std::int32_t> experts;
  for (std::size_t r = 0; r < num_ranks; ++r) {
    for (std::int32_t kept = 0; kept < 4; ++kept) experts.push_back(r < 2 ? kept : 4 + kept);
    experts.insert(experts.end(), {changing[2 * r], changing[2 * r + 1]});
  }
  return one_layer(8, experts);
}

class BlownCluster {
 public:
  explicit BlownCluster(const Blow& blow) : blow_(blow), logs_(num_ranks) {
    EngineOptions options;
    options.staging_budget_bytes = 1U << 8;  // One bundle, so that there are several steps.
    options.deadline = deadline;
    options.verify_sample = 100;
    cluster_.emplace(
        uniform(num_ranks, 1, 24), make_placement({4, 5, 6, 7, 0, 1, 2, 3}), options,
        [this](Rank rank, std::unique_ptr<Transport> channel) { return wrap(rank, std::move(channel)); },
        heartbeat);
    for (std::size_t r = 0; r < num_ranks; ++r) cluster_->engine(r).set_observer(&logs_[r]);
  }

  /// "" when all went well.
  std::string run() {
    pass(10);
    cluster_->begin(make_placement({6, 7, 4, 5, 2, 3, 0, 1}));
    pass(blow_.tick);
    if (blow_.pause > 0) cluster_->stop(blow_.paused);
    pass(blow_.pause / 2);
    cluster_->begin_tick(blow_.ranks_driven);
    if (blow_.kind == BlowKind::death) cluster_->kill(blow_.rank);
    if (blow_.kind == BlowKind::stop) cluster_->stop(blow_.rank);
    pass(blow_.pause - blow_.pause / 2);
    cluster_->resume(blow_.paused);
    if (blow_.kind == BlowKind::stop) cluster_->stop(blow_.rank);
    pass(blow_.lost ? 400 : 60);
    if (blow_.kind == BlowKind::stop) {
      cluster_->resume(blow_.rank);
      pass(10);
      if (cluster_->serves(blow_.rank)) return "the stopped rank serves on";
    }
    if (!cluster_->run_until_idle(tick, 800)) return "a step does not end";
    if (std::string wrong = find_disagreement(); !wrong.empty()) return wrong;
    const std::size_t any = cluster_->serves(0) ? 0 : 1;
    const Forward before = cluster_->next(any);
    pass(10);
    if (cluster_->next(any) <= before) return "no forward is served any more";
    const std::string failed = migrate_again();
    // The message may be lost only now.
    return failed.empty() || !blow_.lost ? failed : migrate_again();
  }

  void stop_half() {
    cluster_->stop(0);
    cluster_->stop(1);
    pass(800);
  }

  [[nodiscard]] Rows rows() const {
    Rows rows(said_->begin(), said_->end());
    for (const TransitionLog& log : logs_) rows.insert(log.rows.begin(), log.rows.end());
    return rows;
  }
  /// Whether a rank went on with a program that was built for the ranks of an older view.
  [[nodiscard]] bool goes_on_with_an_old_program() const {
    return std::ranges::any_of(logs_, [](const TransitionLog& log) {
      bool is_old = false;
      for (const std::string& row : log.rows) {
        if (row == "member idle begin proposed") is_old = false;
        if (row == "member any new_view any") is_old = true;
        if (is_old && row == "member committed release proposed") return true;
      }
      return false;
    });
  }
  [[nodiscard]] bool has_struck() const { return script_ && script_->num_struck() > 0; }

 private:
  std::unique_ptr<Transport> wrap(Rank rank, std::unique_ptr<Transport> channel) {
    if (blow_.lost && rank.index() == blow_.loser) {
      Fault fault;
      fault.match.side = Side::send;
      fault.action = FaultAction::drop;
      fault.occurrence = *blow_.lost;
      script_ = std::make_shared<FaultScript>(std::vector<Fault>{fault});
      channel = std::make_unique<FaultyTransport>(std::move(channel), script_);
    }
    return std::make_unique<ViewTap>(std::move(channel), said_);
  }

  void pass(int ticks) {
    for (int i = 0; i < ticks; ++i) {
      cluster_->tick();
      cluster_->clock().advance(tick);
    }
  }

  /// The survivors go on: a further program commits.
  std::string migrate_again() {
    const auto goal = [&](const Engine& engine) {
      std::vector<std::int32_t> slots;
      for (SlotId slot : ids<SlotId>(24)) {
        const bool is_last = (slot.value() + 1) % 6 == 0;
        const ExpertId now = engine.placement().expert_at(LayerId{0}, slot);
        slots.push_back(!engine.topology().is_alive(slot) ? -1
                        : !is_last                        ? now.value()
                        : slot.value() < 12               ? 7
                                                          : 1);
      }
      return one_layer(8, slots);
    };
    for (std::size_t r = 0; r < num_ranks; ++r) {
      if (!cluster_->serves(r)) continue;
      const Result<bool> begun = cluster_->engine(r).begin_toward({goal(cluster_->engine(r))});
      if (!begun) return begun.error().message;
    }
    if (!cluster_->run_until_idle(tick, 800)) return "the next program does not end";
    for (std::size_t r = 0; r < num_ranks; ++r) {
      if (!cluster_->serves(r)) continue;
      const Engine& engine = cluster_->engine(r);
      if (engine.placement() != goal(engine))
        return fmt::format("rank {} did not commit the next program", r);
    }
    return find_disagreement();
  }

  /// Those that serve: one view, one epoch, the bytes that the placement says.
  std::string find_disagreement() {
    std::optional<std::size_t> first;
    for (std::size_t r = 0; r < num_ranks; ++r) {
      if (!cluster_->serves(r)) continue;
      if (!first) first = r;
      const Engine& a = cluster_->engine(*first);
      const Engine& b = cluster_->engine(r);
      if (a.view().number != b.view().number) return fmt::format("views of {} and {} differ", *first, r);
      if (a.view().members != b.view().members) return fmt::format("members of {} and {} differ", *first, r);
      if (a.health().epoch != b.health().epoch) return fmt::format("epochs of {} and {} differ", *first, r);
      const std::string difference = cluster_->weights(r).find_difference(b.placement());
      if (!difference.empty()) return fmt::format("rank {}: {}", r, difference);
    }
    return first ? "" : "nobody serves";
  }

  Blow blow_;
  std::shared_ptr<std::vector<std::string>> said_ = std::make_shared<std::vector<std::string>>();
  std::shared_ptr<FaultScript> script_;
  std::vector<TransitionLog> logs_;
  std::optional<Cluster> cluster_;
};

/// The half without the lowest rank is left.
Rows half_stops() {
  BlownCluster blown({.kind = BlowKind::none});
  blown.stop_half();
  Rows rows;
  for (const std::string& row : blown.rows()) rows.merge(spellings(row));
  return rows;
}

constexpr int migration_ticks = 14;

class ViewTrace : public testing::Test {
 protected:
  /// @return whether the message was sent that gets lost.
  bool strike(const Blow& blow) {
    BlownCluster blown(blow);
    expect_sound(blown, blow);
    ++num_blows_;
    return blown.has_struck();
  }
  void expect_sound(BlownCluster& blown, const Blow& blow) {
    ASSERT_EQ(blown.run(), "") << blow.what();
    ASSERT_FALSE(blown.goes_on_with_an_old_program()) << blow.what();
    for (const std::string& row : blown.rows()) {
      Rows spelled = spellings(row);
      ASSERT_TRUE(contains_any(listed_["code"], spelled) || contains_any(listed_["views"], spelled))
          << blow.what() << ": not in the list: " << row;
      seen_.merge(spelled);
    }
  }

  void deaths_and_stops() {
    for (BlowKind kind : {BlowKind::death, BlowKind::stop}) {
      for (int at = 0; at < migration_ticks; ++at) {
        for (std::size_t driven = 0; driven < num_ranks; ++driven) {
          for (std::size_t rank = 0; rank < num_ranks; ++rank) {
            strike({.kind = kind, .rank = rank, .tick = at, .ranks_driven = driven});
          }
        }
      }
    }
  }
  void losses() {
    for (std::size_t rank = 0; rank < num_ranks; ++rank) {
      for (std::uint64_t message = 0;; ++message) {
        if (!strike({.kind = BlowKind::none, .lost = message, .loser = rank})) break;
      }
    }
  }
  /// What waits for the paused rank it reads when the survivors have begun to end the view.
  void deaths_during_a_pause() {
    for (int at = 0; at < migration_ticks; ++at) {
      for (int pause = 1; pause < 8; ++pause) {
        for (std::size_t rank = 0; rank < num_ranks; ++rank) {
          const std::size_t paused = (rank + 1) % num_ranks;
          strike({.kind = BlowKind::death, .rank = rank, .tick = at, .pause = pause, .paused = paused});
        }
      }
    }
  }
  void losses_before_a_death() {
    bool has_struck = true;
    for (std::uint64_t message = 0; has_struck && !HasFatalFailure(); ++message) {
      has_struck = false;
      for (int at = 0; at < migration_ticks; at += 3) {
        for (std::size_t rank = 0; rank < num_ranks; ++rank) {
          has_struck |= strike({.kind = BlowKind::death, .rank = rank, .tick = at, .lost = message});
        }
      }
    }
  }

  std::map<std::string, Rows> listed_ = read_transitions();
  Rows seen_;
  int num_blows_ = 0;
};

TEST_F(ViewTrace, HasOneEndingWhateverStrikesAndOnlyTransitionsOfTheModel) {
  deaths_and_stops();
  losses();
  deaths_during_a_pause();
  losses_before_a_death();
  EXPECT_GT(num_blows_, 1500);
  seen_.merge(half_stops());
  for (const std::string& row : listed_["views"])
    EXPECT_TRUE(seen_.contains(row)) << "no engine did: " << row;
}

}  // namespace
}  // namespace trimtab::test
