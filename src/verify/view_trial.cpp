// SPDX-License-Identifier: Apache-2.0
#include "verify/view_trial.hpp"

#include "verify/cut_transport.hpp"
#include "verify/draw_deaths.hpp"
#include "verify/known_source.hpp"
#include "verify/serving_rank.hpp"
#include "verify/survivors.hpp"
#include "verify/virtual_clock.hpp"

#include <trimtab/transport/inproc.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace trimtab::verify {
namespace {

class ViewTrial {
 public:
  ViewTrial(const Case& drawn, std::optional<Mutant> mutant, const Story& story)
      : drawn_(drawn), mutant_(mutant), story_(story), random_(mix(drawn.seed)), source_(drawn) {}

  Status make_ranks();
  TrialReport run();

 private:
  struct RankState {
    Transport* channel = nullptr;  ///< Owned by the engine.
    Transport* beats = nullptr;    ///< Owned by the heartbeat.
    std::unique_ptr<Heartbeat> heartbeat;
    std::unique_ptr<ServingRank> serving;  ///< Null: killed.
    bool is_dying = false;
    Clock::time_point stopped_until;
    std::uint64_t num_transitions = 0;
  };

  Status make_rank(Rank rank, std::unique_ptr<Transport> channel, std::unique_ptr<Transport> beats);
  std::unique_ptr<Transport> with_cut(std::unique_ptr<Transport> channel);
  void tell(const std::string& line) const;
  void violate(Check check, const std::string& what);

  void tick();
  void drive(std::size_t rank);
  void strike_at_ticks();
  void on_transition(std::size_t rank);
  void strike(std::size_t fault);

  [[nodiscard]] bool serves(std::size_t rank) const {
    return ranks_[rank].serving && !ranks_[rank].serving->is_out();
  }
  /// By fault; what a killed rank was to do may have struck.
  [[nodiscard]] std::vector<bool> struck() const;
  [[nodiscard]] bool is_over() const;
  [[nodiscard]] bool are_done() const;
  [[nodiscard]] std::uint64_t most_ticks() const;
  [[nodiscard]] std::string find_disagreement() const;
  [[nodiscard]] std::string find_difference(const Engine& a, const Engine& b) const;
  void check_fate();
  void finish();
  void count();

  const Case& drawn_;
  std::optional<Mutant> mutant_;
  const Story& story_;
  Random random_;
  VirtualClock clock_;
  ForwardBoard board_{};
  KnownSource source_;
  std::vector<RankState> ranks_;
  std::vector<std::size_t> order_;
  std::vector<bool> has_struck_;   ///< Deaths only.
  Clock::time_point quiet_since_;  ///< When the last fault was over.
  std::uint64_t tick_ = 0;
  TrialCounts counts_;
  std::optional<Violation> violation_;
};

Status ViewTrial::make_ranks() {
  auto channels = make_inproc_transports(drawn_.topology.num_ranks());
  if (!channels) return failure(std::move(channels));
  auto beats = make_inproc_transports(drawn_.topology.num_ranks());
  if (!beats) return failure(std::move(beats));
  ranks_.resize(channels->size());
  order_.resize(ranks_.size());
  std::iota(order_.begin(), order_.end(), 0);
  has_struck_.resize(drawn_.faults.size());
  for (Rank rank : ids<Rank>(drawn_.topology.num_ranks())) {
    Status made = make_rank(rank, std::move((*channels)[rank.index()]), std::move((*beats)[rank.index()]));
    if (!made) return made;
  }
  return {};
}

Status ViewTrial::make_rank(Rank rank, std::unique_ptr<Transport> channel, std::unique_ptr<Transport> beats) {
  RankState& state = ranks_[rank.index()];
  state.channel = channel.get();
  state.beats = beats.get();
  auto heartbeat = Heartbeat::make(drawn_.heartbeat, with_cut(std::move(beats)), clock_);
  if (!heartbeat) return failure(std::move(heartbeat));
  state.heartbeat = std::move(*heartbeat);
  Story story;
  if (story_) story = [this](const std::string& line) { tell(line); };
  constexpr int patience = 16;
  CheckedRank::Setup checked{drawn_, rank, clock_, mutant_, story};
  checked.liveness = state.heartbeat.get();
  if (drawn_.has_source) checked.source = &source_;
  checked.at_transition = [this, rank] { on_transition(rank.index()); };
  auto serving =
      ServingRank::make({checked, board_, patience * drawn_.engine.deadline, drawn_.engine.deadline},
                        with_cut(std::move(channel)));
  if (!serving) return failure(std::move(serving));
  state.serving = std::move(*serving);
  return {};
}

std::unique_ptr<Transport> ViewTrial::with_cut(std::unique_ptr<Transport> channel) {
  const Rank rank = channel->rank();
  return std::make_unique<CutTransport>(
      std::move(channel), [this, rank](Rank peer) { return is_cut(drawn_, board_.is_cut(), rank, peer); });
}

TrialReport ViewTrial::run() {
  while (!violation_ && !is_over()) {
    tick();
    if (tick_ > most_ticks()) violate(Check::deadline, "the ranks do not come to an end");
  }
  if (!violation_) {
    if (const std::string wrong = find_disagreement(); !wrong.empty()) violate(Check::one_view, wrong);
  }
  if (!violation_) check_fate();
  finish();
  count();
  return {counts_, violation_};
}

void ViewTrial::tell(const std::string& line) const {
  const std::chrono::duration<double, std::milli> now = clock_.now().time_since_epoch();
  if (story_) story_(fmt::format("{:>10.3f} ms  {}", now.count(), line));
}

void ViewTrial::violate(Check check, const std::string& what) {
  if (violation_) return;
  violation_ = Violation{check, drawn_.seed, what};
  tell(fmt::format("VIOLATION {}", to_string(*violation_)));
}

void ViewTrial::tick() {
  ++tick_;
  clock_.advance(drawn_.pace.tick);
  strike_at_ticks();
  random_.shuffle(order_);
  for (std::size_t rank : order_) {
    const bool skips = drawn_.pace.skips_one_in != 0 && random_.one_in(drawn_.pace.skips_one_in);
    if (!skips && serves(rank) && ranks_[rank].stopped_until <= clock_.now()) drive(rank);
    if (violation_) return;
  }
}

void ViewTrial::drive(std::size_t rank) {
  RankState& state = ranks_[rank];
  if (Status beaten = state.heartbeat->beat(); !beaten)
    return violate(Check::alive, fmt::format("rank {}: no beat: {}", rank, beaten.error().message));
  state.serving->drive();
  if (state.is_dying) {
    state.serving.reset();
    return;
  }
  violation_ = state.serving->violation();
  if (state.serving->is_out()) tell(fmt::format("rank {} stops: {}", rank, state.serving->checked().doubt()));
}

void ViewTrial::strike_at_ticks() {
  for (std::size_t i = 0; i < drawn_.faults.size(); ++i) {
    const CaseFault& fault = drawn_.faults[i];
    if (is_death(fault.kind) && !fault.transition && fault.tick == tick_) strike(i);
  }
  for (RankState& rank : ranks_) {
    if (rank.is_dying) rank.serving.reset();
  }
}

void ViewTrial::on_transition(std::size_t rank) {
  const std::uint64_t number = ++ranks_[rank].num_transitions;
  for (std::size_t i = 0; i < drawn_.faults.size(); ++i) {
    const CaseFault& fault = drawn_.faults[i];
    if (is_death(fault.kind) && fault.rank.index() == rank && fault.transition == number) strike(i);
  }
}

/// An engine that is killed inside a call ends that call with closed channels.
void ViewTrial::strike(std::size_t fault) {
  const CaseFault& death = drawn_.faults[fault];
  RankState& state = ranks_[death.rank.index()];
  if (!serves(death.rank.index()) || state.is_dying) return;
  has_struck_[fault] = true;
  tell(describe_death(death));
  quiet_since_ = std::max(quiet_since_, clock_.now());
  switch (death.kind) {
    case FaultKind::kill:
      state.is_dying = true;
      state.channel->close();
      state.beats->close();
      break;
    case FaultKind::stop:
      state.stopped_until = clock_.now() + death.length;
      quiet_since_ = std::max(quiet_since_, state.stopped_until);
      break;
    default:
      board_.cut();
      break;
  }
}

/// A few hundred deadlines: each view has two programs or four, of a few steps.
std::uint64_t ViewTrial::most_ticks() const {
  constexpr int most_deadlines = 150;
  return static_cast<std::uint64_t>(most_deadlines * drawn_.engine.deadline / drawn_.pace.tick);
}

std::vector<bool> ViewTrial::struck() const {
  std::vector<bool> struck = has_struck_;
  for (std::size_t i = 0; i < struck.size(); ++i) {
    const CaseFault& fault = drawn_.faults[i];
    const auto& serving = ranks_[fault.rank.index()].serving;
    if (is_message_fault(fault.kind)) struck[i] = !serving || serving->checked().has_struck(i);
  }
  return struck;
}

/// Soon, when all agree; else after every silence and deadline that there is.
bool ViewTrial::is_over() const {
  constexpr std::uint64_t last_tick = 60;
  if (tick_ < last_tick || !are_done() || clock_.now() < quiet_since_) return false;
  const Clock::duration silence = drawn_.heartbeat.period * drawn_.heartbeat.misses;
  const Fate fate = expected_fate(drawn_, struck());
  const bool have_stopped =
      std::ranges::none_of(fate.stop, [this](Rank rank) { return serves(rank.index()); });
  return (have_stopped && find_disagreement().empty()) ||
         clock_.now() >= quiet_since_ + silence + 16 * drawn_.engine.deadline;
}

bool ViewTrial::are_done() const {
  return std::ranges::all_of(ranks_, [](const RankState& rank) {
    return !rank.serving || rank.serving->is_out() || rank.serving->is_done();
  });
}

/// Those that serve: one view, of which they are the members, one epoch, one placement.
std::string ViewTrial::find_disagreement() const {
  std::vector<Rank> serving;
  for (Rank rank : ids<Rank>(ranks_.size())) {
    if (serves(rank.index())) serving.push_back(rank);
  }
  for (Rank rank : serving) {
    const Engine& first = ranks_[serving.front().index()].serving->engine();
    const Engine& engine = ranks_[rank.index()].serving->engine();
    if (engine.view().members != serving) {
      return fmt::format("rank {} serves in view {} of {} ranks, {} serve", rank.value(),
                         engine.view().number, engine.view().members.size(), serving.size());
    }
    const std::string difference = find_difference(first, engine);
    if (!difference.empty())
      return fmt::format("ranks {} and {} differ: {}", serving.front().value(), rank.value(), difference);
  }
  return "";
}

std::string ViewTrial::find_difference(const Engine& a, const Engine& b) const {
  if (a.view().number != b.view().number)
    return fmt::format("views {} and {}", a.view().number, b.view().number);
  if (a.health().epoch != b.health().epoch)
    return fmt::format("epochs {} and {}", a.health().epoch.value(), b.health().epoch.value());
  return a.placement() == b.placement() ? "" : "their placements";
}

void ViewTrial::check_fate() {
  const Fate fate = expected_fate(drawn_, struck());
  for (Rank rank : fate.serve) {
    if (serves(rank.index())) continue;
    const auto& serving = ranks_[rank.index()].serving;
    return violate(Check::alive, fmt::format("rank {} does not serve any more: {}", rank.value(),
                                             serving ? serving->checked().doubt() : "killed"));
  }
  for (Rank rank : fate.stop) {
    if (serves(rank.index())) return violate(Check::one_view, fmt::format("rank {} serves on", rank.value()));
  }
}

void ViewTrial::finish() {
  for (RankState& rank : ranks_) {
    if (!rank.serving) continue;
    rank.serving->finish();
    if (!violation_) violation_ = rank.serving->violation();
  }
}

/// One that serves to the end speaks for all.
void ViewTrial::count() {
  const ServingRank* speaker = nullptr;
  for (const RankState& rank : ranks_) {
    if (!rank.serving || (speaker != nullptr && (rank.serving->is_out() || !speaker->is_out()))) continue;
    speaker = rank.serving.get();
  }
  if (speaker != nullptr) counts_ = speaker->counts();
  for (std::size_t i = 0; i < drawn_.faults.size(); ++i) {
    if (has_struck_[i]) counts_.add_death(drawn_.faults[i].kind);
  }
}

}  // namespace

Result<TrialReport> run_view_trial(const Case& drawn, std::optional<Mutant> mutant, const Story& story) {
  ViewTrial trial(drawn, mutant, story);
  if (Status made = trial.make_ranks(); !made) return failure(std::move(made));
  return trial.run();
}

}  // namespace trimtab::verify
