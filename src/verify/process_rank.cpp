// SPDX-License-Identifier: Apache-2.0
#include "verify/process_rank.hpp"

#include "verify/cut_transport.hpp"
#include "verify/draw_deaths.hpp"
#include "verify/known_source.hpp"
#include "verify/process_trial.hpp"
#include "verify/serving_rank.hpp"

#include <trimtab/core/checksum.hpp>
#include <trimtab/transport/ucx.hpp>

#include <unistd.h>
#include <algorithm>
#include <csignal>
#include <thread>
#include <utility>

namespace trimtab::verify {
namespace {

constexpr std::chrono::microseconds nap{50};

std::uint64_t hash_of(const Placement& placement) {
  std::uint64_t hash = 0;
  for (LayerId layer : ids<LayerId>(placement.num_layers()))
    hash = mix(hash ^ checksum_of(std::as_bytes(placement.layer(layer))));
  return hash;
}

class ProcessRank {
 public:
  ProcessRank(const Case& drawn, Rank rank, SharedCase& shared)
      : drawn_(drawn), rank_(rank), shared_(shared), source_(drawn) {}

  Status start(UcxSession& session);
  void run();

 private:
  [[nodiscard]] RankRecord& record() const noexcept { return shared_.ranks[rank_.index()]; }
  Result<std::unique_ptr<Transport>> open(UcxSession& session);
  void on_transition();
  void strike_at_forwards();
  void strike(std::size_t fault);
  [[nodiscard]] bool is_done() const;
  [[nodiscard]] bool are_all(RankPhase phase) const;
  void fill_record();

  const Case& drawn_;
  Rank rank_;
  SharedCase& shared_;
  SteadyClock clock_;
  KnownSource source_;
  std::unique_ptr<Liveness> liveness_;
  std::unique_ptr<ServingRank> serving_;
  std::uint64_t num_transitions_ = 0;
};

Result<std::unique_ptr<Transport>> ProcessRank::open(UcxSession& session) {
  Result<std::unique_ptr<Transport>> channel = make_ucx_transport(session);
  if (!channel) return channel;
  return std::unique_ptr<Transport>(std::make_unique<CutTransport>(std::move(*channel), [this](Rank peer) {
    return is_cut(drawn_, shared_.board.is_cut(), rank_, peer);
  }));
}

Status ProcessRank::start(UcxSession& session) {
  Result<std::unique_ptr<Transport>> channel = open(session);
  if (!channel) return failure(std::move(channel));
  Result<std::unique_ptr<Transport>> beats = open(session);
  if (!beats) return failure(std::move(beats));
  Result<std::unique_ptr<Liveness>> liveness =
      make_background_heartbeat(drawn_.heartbeat, std::move(*beats), clock_);
  if (!liveness) return failure(std::move(liveness));
  liveness_ = std::move(*liveness);
  CheckedRank::Setup checked{drawn_, rank_, clock_};
  checked.liveness = liveness_.get();
  if (drawn_.has_source) checked.source = &source_;
  checked.at_transition = [this] { on_transition(); };
  const Clock::duration patience = 20 * drawn_.engine.deadline + std::chrono::seconds(5);
  auto serving =
      ServingRank::make({checked, shared_.board, patience, drawn_.engine.deadline}, std::move(*channel));
  if (!serving) return failure(std::move(serving));
  serving_ = std::move(*serving);
  return {};
}

/// Nobody leaves before all have nothing more to do, in one view: else who goes first looks dead to the
/// others, or one that has slept is not told that it was left out.
void ProcessRank::run() {
  while (!serving_->is_out() && !serving_->violation() && !are_all(RankPhase::done)) {
    serving_->drive();
    strike_at_forwards();
    record().view_now.store(serving_->engine().view().number);
    record().phase.store(is_done() ? RankPhase::done : RankPhase::serving);
    std::this_thread::sleep_for(nap);
  }
  serving_->finish();
  fill_record();
  record().phase.store(RankPhase::finished);
  if (serving_->is_out()) return;
  while (!are_all(RankPhase::finished)) std::this_thread::sleep_for(nap);
}

void ProcessRank::on_transition() {
  ++num_transitions_;
  for (std::size_t i = 0; i < drawn_.faults.size(); ++i) {
    const CaseFault& fault = drawn_.faults[i];
    if (fault.rank == rank_ && fault.transition == num_transitions_) strike(i);
  }
}

void ProcessRank::strike_at_forwards() {
  for (std::size_t i = 0; i < drawn_.faults.size(); ++i) {
    const CaseFault& fault = drawn_.faults[i];
    if (fault.rank == rank_ && !fault.transition && fault.tick <= serving_->next().value()) strike(i);
  }
}

/// A stopped process is continued by its parent.
void ProcessRank::strike(std::size_t fault) {
  const std::uint64_t bit = std::uint64_t{1} << fault;
  if ((record().struck.fetch_or(bit) & bit) != 0) return;
  switch (drawn_.faults[fault].kind) {
    case FaultKind::kill:
      ::kill(::getpid(), SIGKILL);
      break;
    case FaultKind::stop:
      record().is_stopped.store(true);
      ::kill(::getpid(), SIGSTOP);
      record().is_stopped.store(false);
      break;
    default:
      shared_.board.cut();
      break;
  }
}

/// Not before the view has left out whoever is gone.
bool ProcessRank::is_done() const {
  return serving_->is_done() && std::ranges::none_of(serving_->engine().view().members, [&](Rank member) {
           return shared_.ranks[member.index()].is_gone.load() ||
                  is_cut(drawn_, shared_.board.is_cut(), rank_, member);
         });
}

bool ProcessRank::are_all(RankPhase phase) const {
  for (Rank rank : ids<Rank>(drawn_.topology.num_ranks())) {
    const RankRecord& other = shared_.ranks[rank.index()];
    const bool is_out = other.phase.load() == RankPhase::finished && other.is_out;
    if (other.is_gone.load() || is_out) continue;
    const bool is_elsewhere = other.view_now.load() != record().view_now.load();
    if (other.is_stopped.load() || is_elsewhere || other.phase.load() < phase) return false;
  }
  return true;
}

void ProcessRank::fill_record() {
  RankRecord& record = this->record();
  const Engine& engine = serving_->engine();
  record.is_out = serving_->is_out();
  record.doubt.set(serving_->checked().doubt());
  for (Rank member : engine.view().members) record.members |= std::uint64_t{1} << member.index();
  record.view = engine.view().number;
  record.epoch = engine.health().epoch.value();
  record.placement = hash_of(engine.placement());
  record.counts = serving_->counts();
  if (serving_->violation()) record.set_violation(*serving_->violation());
}

void run_without_deaths(const Case& drawn, UcxSession& session, RankRecord& record) {
  const Result<std::unique_ptr<Transport>> root = make_ucx_transport(session);
  if (!root) return record.error.set(root.error().message);
  const SteadyClock clock;
  const Result<TrialReport> played = run_process_trial(drawn, **root, clock);
  if (!played) {
    record.set_violation({Check::deadline, drawn.seed, played.error().message});
  } else {
    record.counts = played->counts;
    if (played->violation) record.set_violation(*played->violation);
  }
  record.phase.store(RankPhase::finished);
}

}  // namespace

void set_real_time(Case& drawn) {
  drawn.pace.budget = std::chrono::microseconds(50);
  const Clock::duration before = drawn.heartbeat.period;
  drawn.heartbeat.period = drawn.engine.deadline / 4;
  for (CaseFault& fault : drawn.faults) {
    if (fault.kind == FaultKind::stop)
      fault.length = fault.length / before.count() * drawn.heartbeat.period.count();
  }
}

void run_process_rank(const Case& drawn, const Bootstrap& bootstrap, SharedCase& shared) {
  RankRecord& record = shared.ranks[bootstrap.rank.index()];
  Result<UcxSession> session = UcxSession::start(bootstrap);
  if (!session) return record.error.set(session.error().message);
  if (!drawn.has_deaths) return run_without_deaths(drawn, *session, record);
  ProcessRank rank(drawn, bootstrap.rank, shared);
  if (Status started = rank.start(*session); !started) return record.error.set(started.error().message);
  rank.run();
}

}  // namespace trimtab::verify
