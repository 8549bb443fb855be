// SPDX-License-Identifier: Apache-2.0
#include "verify/checked_rank.hpp"

#include "migrate/control.hpp"

#include <trimtab/core/assert.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace trimtab::verify {
namespace {

Fault script_of(const CaseFault& fault) {
  Fault scripted;
  scripted.match.side = fault.side;
  scripted.match.peer = fault.peer;
  (fault.is_control ? scripted.match.tag : scripted.match.other_than) = ControlChannel::tag;
  scripted.occurrence = fault.occurrence;
  scripted.code = fault.code;
  constexpr FaultAction actions[]{FaultAction::drop,  FaultAction::corrupt, FaultAction::duplicate,
                                  FaultAction::delay, FaultAction::reorder, FaultAction::fail};
  scripted.action = actions[static_cast<std::size_t>(fault.kind)];
  if (fault.kind == FaultKind::delay) scripted.hold = fault.length;
  return scripted;
}

LayoutWeights::Options weights_of(const CheckedRank::Setup& setup) {
  return {.layers = setup.drawn.layers,
          .arrangement = setup.drawn.arrangement,
          .num_fused = setup.drawn.num_fused,
          .forgets_scales = setup.mutant == Mutant::wrong_scale};
}

bool is_same_step(const Step& a, const Step& b) { return a.moves == b.moves && a.vacations == b.vacations; }

}  // namespace

CheckedRank::CheckedRank(const Setup& setup, RoutingTable table)
    : setup_(setup),
      weights_(weights_of(setup), setup.drawn.topology.slots_of(setup.rank)),
      fingerprint_(weights_.store().fingerprint()),
      publisher_(std::move(table)),
      counts_(setup.drawn.first.num_layers(), setup.drawn.first.num_slots(), setup.drawn.first.num_experts(),
              mix(setup.drawn.seed + 1) + static_cast<std::uint64_t>(setup.rank.value())),
      contents_(
          SlotContents::with_marked_vacancies(setup.drawn.first, setup.drawn.topology.slots_of(setup.rank))) {
  weights_.fill(contents_);
  if (setup.mutant == Mutant::new_storage) {
    replacement_.emplace(weights_of(setup), contents_.slots());
    replacement_->fill(contents_);
  }
  for (std::size_t i = 0; i < setup.drawn.pace.max_in_flight; ++i)
    lanes_.push_back(std::make_unique<Lane>(publisher_));
}

Result<std::unique_ptr<CheckedRank>> CheckedRank::make(const Setup& setup,
                                                       std::unique_ptr<Transport> channel) {
  const Case& drawn = setup.drawn;
  Result<RoutingTable> table = RoutingTable::compile(drawn.first, drawn.topology, {Epoch{0}, 0});
  if (!table) return failure(std::move(table));
  std::unique_ptr<CheckedRank> rank(new CheckedRank(setup, std::move(*table)));
  EngineOptions options = drawn.engine;
  options.liveness = setup.liveness;
  options.source = setup.source;
  Result<std::unique_ptr<Engine>> engine =
      make_engine(setup.mutant, options, rank->with_faults(std::move(channel)),
                  (rank->replacement_ ? *rank->replacement_ : rank->weights_).store(), rank->publisher_,
                  drawn.topology, drawn.first, setup.clock);
  if (!engine) return failure(std::move(engine));
  rank->engine_ = std::move(*engine);
  rank->engine_->set_observer(rank.get());
  return rank;
}

std::unique_ptr<Transport> CheckedRank::with_faults(std::unique_ptr<Transport> channel) {
  std::vector<Fault> faults;
  for (std::size_t i = 0; i < setup_.drawn.faults.size(); ++i) {
    const CaseFault& fault = setup_.drawn.faults[i];
    if (fault.rank != setup_.rank || !is_message_fault(fault.kind)) continue;
    scripted_.push_back(i);
    faults.push_back(script_of(fault));
  }
  script_ = std::make_shared<FaultScript>(std::move(faults));
  if (scripted_.empty()) return channel;
  return std::make_unique<FaultyTransport>(std::move(channel), script_, &setup_.clock);
}

void CheckedRank::begin(const Program& program) {
  program_ = &program;
  has_found_corruption_ = false;
  num_steps_left_ = program.steps.size();
  if (Status begun = engine_->begin(program); !begun)
    violate(Check::alive, fmt::format("a program was refused: {}", begun.error().message));
}

CheckedRank::Turn CheckedRank::take_turn(Forward next) {
  if (is_in_doubt_) return Turn::stopped;
  if (num_in_flight_ == lanes_.size()) {
    progress();
    return is_in_doubt_ ? Turn::stopped : Turn::full;
  }
  const Result<Admission> admission = engine_->advance(next, setup_.drawn.pace.budget);
  check_after_call();
  if (!admission) {
    stop(admission.error());
    return Turn::stopped;
  }
  if (*admission == Admission::hold) return Turn::held;
  if (*admission == Admission::renew) return Turn::renewed;
  begin_batch(next);
  return Turn::began;
}

void CheckedRank::progress() {
  if (is_in_doubt_) return;
  const Status progressed = engine_->progress(setup_.drawn.pace.budget);
  check_after_call();
  if (progressed) return;
  if (setup_.liveness == nullptr || progressed.error().code != Errc::cancelled)
    return stop(progressed.error());
  give_up_batches();
}

/// Others may have finished them, so their bytes must be whole to the end; their counts are dropped.
void CheckedRank::give_up_batches() {
  while (num_in_flight_ > 0) end_batch(BatchEnd::given_up);
}

void CheckedRank::begin_batch(Forward forward) {
  Lane& lane = *lanes_[(oldest_lane_ + num_in_flight_) % lanes_.size()];
  lane.lease.emplace(lane.reader.acquire());
  lane.forward = forward;
  ++num_in_flight_;
  const RoutingTable& table = **lane.lease;
  check_served(table, forward, "at its begin");
  if (setup_.liveness == nullptr) return route(table);
  check_alive(table);
}

/// Where forwards can be given up, one counts when it is over.
void CheckedRank::end_batch(BatchEnd end) {
  Lane& lane = *lanes_[oldest_lane_];
  check_served(**lane.lease, lane.forward, "at its end");
  if (setup_.liveness != nullptr && end == BatchEnd::finished) {
    route(**lane.lease);
    engine_->note_finished(lane.forward.next());
  }
  lane.lease.reset();
  oldest_lane_ = (oldest_lane_ + 1) % lanes_.size();
  --num_in_flight_;
}

void CheckedRank::route(const RoutingTable& table) {
  if (Status routed = counts_.route(table); !routed) violate(Check::counts, routed.error().message);
}

/// No table names a slot of a rank that is not in the view.
void CheckedRank::check_alive(const RoutingTable& table) {
  for (SlotId slot : table.view().slots) {
    if (engine_->topology().is_alive(slot)) continue;
    return violate(Check::one_view,
                   fmt::format("the table of epoch {} names slot {} of rank {}, not in view {}",
                               table.identity().epoch.value(), slot.value(),
                               engine_->topology().rank_of(slot).value(), engine_->view().number));
  }
}

const RoutingTable& CheckedRank::newest() const {
  return **lanes_[(oldest_lane_ + num_in_flight_ - 1) % lanes_.size()]->lease;
}

void CheckedRank::name_slots(const RoutingTable& table) {
  if (named_by_ == table.fingerprint()) return;
  named_by_ = table.fingerprint();
  named_.clear();
  const RoutingTable::View view = table.view();
  const auto experts = static_cast<std::size_t>(table.num_experts());
  for (std::size_t row = 0; row + 1 < view.first.size(); ++row) {
    for (SlotId slot : view.slots.subspan(view.first[row], view.first[row + 1] - view.first[row])) {
      if (!contents_.slots().contains(slot)) continue;
      named_.push_back({LayerId{static_cast<std::int32_t>(row / experts)}, slot,
                        ExpertId{static_cast<std::int32_t>(row % experts)}});
    }
  }
}

/// All bytes of every slot of this rank that the table names.
void CheckedRank::check_served(const RoutingTable& table, Forward forward, std::string_view when) {
  name_slots(table);
  for (const Named& named : named_) {
    const auto found = weights_.slot_difference(named.layer, named.slot, named.expert);
    if (!found) continue;
    violate(Check::served_bytes, fmt::format("{}; forward {} {}, epoch {}", to_string(*found),
                                             forward.value(), when, table.identity().epoch.value()));
    return;
  }
}

void CheckedRank::on_commit(const Step& step, Epoch epoch) {
  last_step_ = nullptr;
  const std::uint64_t index = program_ == nullptr ? 0 : epoch.value() - program_->epoch.value() - 1;
  if (program_ == nullptr || index >= program_->steps.size()) {
    violate(Check::step_of_program,
            fmt::format("epoch {} was committed, but no program leads there", epoch.value()));
  } else if (epoch != epoch_.next() || !is_same_step(step, program_->steps[index])) {
    violate(Check::step_of_program,
            fmt::format("epoch {} was committed after {} by another step than the program has", epoch.value(),
                        epoch_.value()));
  } else {
    last_step_ = &program_->steps[index];
    num_steps_left_ = program_->steps.size() - index - 1;
  }
  contents_.apply(step);
  epoch_ = epoch;
  has_committed_ = true;
}

/// Its table has an epoch of its own.
void CheckedRank::on_view(const View& view) {
  epoch_ = engine_->health().epoch;
  if (!setup_.story) return;
  std::string members;
  for (Rank member : view.members) members += fmt::format(" {}", member.value());
  setup_.story(fmt::format("rank {}: view {} of ranks{} from forward {} on, epoch {}, {} experts lost",
                           setup_.rank.value(), view.number, members, view.resume.value(), epoch_.value(),
                           view.lost.size()));
}

void CheckedRank::on_transition(StepState before, StepEvent event, StepState after) {
  if (setup_.at_transition) setup_.at_transition();
  if (setup_.story) {
    setup_.story(fmt::format("rank {}: {} -> {} ({}), epoch {}", setup_.rank.value(), to_string(before),
                             to_string(after), to_string(event), epoch_.value()));
  }
  const bool is_by_view = event == StepEvent::new_view_commit || event == StepEvent::new_view_abort;
  if (after == StepState::staged) has_voted_yes_ = event == StepEvent::vote_yes;
  const bool is_bound = before == StepState::draining || before == StepState::committed ||
                        (before == StepState::staged && has_voted_yes_);
  if (is_by_view && is_bound) ++num_resolved_;
  if (after != StepState::idle || before == StepState::idle) return;
  if (event != StepEvent::release) has_rolled_back_ = true;
  program_ = nullptr;
}

void CheckedRank::check_after_call() {
  if (std::exchange(has_committed_, false)) {
    check_bytes(Check::unnamed_bytes, fmt::format("after the commit of epoch {}", epoch_.value()));
    if (engine_->view().lost.empty() && publisher_.identity().epoch != epoch_) {
      violate(Check::one_epoch, fmt::format("epoch {} was committed, {} is in service", epoch_.value(),
                                            publisher_.identity().epoch.value()));
    }
  }
  if (std::exchange(has_rolled_back_, false)) {
    check_bytes(Check::rolled_back, fmt::format("after a rollback in epoch {}", epoch_.value()));
    has_found_corruption_ = engine_->health().last_failure->code == Errc::corrupt;
  }
  last_step_ = nullptr;
  if (program_ != nullptr) check_staging();
}

void CheckedRank::check_staging() {
  const EngineHealth health = engine_->health();
  if (health.staging_peak_bytes <= health.staging_budget_bytes) return;
  violate(Check::staging, fmt::format("{} bytes of staging in use > budget {}", health.staging_peak_bytes,
                                      health.staging_budget_bytes));
}

void CheckedRank::check_bytes(Check check, std::string_view when) {
  if (const auto found = weights_.first_difference(contents_)) {
    const bool is_named = check == Check::unnamed_bytes && is_named_by_last_step(*found);
    violate(is_named ? Check::served_bytes : check, fmt::format("{}; {}", to_string(*found), when));
  }
  if (weights_.store().fingerprint() != fingerprint_)
    violate(Check::addresses, fmt::format("a storage moved or changed its format; {}", when));
}

bool CheckedRank::is_named_by_last_step(const Difference& difference) const {
  return last_step_ != nullptr && std::ranges::any_of(last_step_->moves, [&](const Move& move) {
           return move.layer == difference.layer && move.destination == difference.slot;
         });
}

void CheckedRank::check_all() {
  check_bytes(Check::unnamed_bytes, "at the end");
  const bool takes_stale_maps = setup_.mutant == Mutant::stale_map;
  if (Status counted = counts_.check(*engine_, takes_stale_maps); !counted)
    violate(Check::counts, counted.error().message);
}

/// Batches in flight are abandoned.
void CheckedRank::stop(const Error& error) {
  is_in_doubt_ = true;
  doubt_ = error.message;
  give_up_batches();
}

void CheckedRank::violate(Check check, const std::string& what) {
  if (violation_) return;
  violation_ = Violation{check, setup_.drawn.seed, fmt::format("rank {}, {}", setup_.rank.value(), what)};
  if (setup_.story) setup_.story(fmt::format("VIOLATION {}", to_string(*violation_)));
}

bool CheckedRank::has_struck(std::size_t fault) const {
  const auto found = std::ranges::find(scripted_, fault);
  return found != scripted_.end() && script_->has_struck(static_cast<std::size_t>(found - scripted_.begin()));
}

}  // namespace trimtab::verify
