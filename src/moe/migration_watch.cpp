// SPDX-License-Identifier: Apache-2.0
#include "moe/migration_watch.hpp"

#include <utility>

namespace trimtab::moe {

void MigrationWatch::on_begin(const Step& step) {
  has_said_no_ = false;
  faults_.on_begin(step);
}

void MigrationWatch::on_transition(StepState /*before*/, StepEvent event, StepState after) {
  has_said_no_ = has_said_no_ || event == StepEvent::vote_no || event == StepEvent::no_room;
  is_rolled_back_ = is_rolled_back_ || (after == StepState::idle && event != StepEvent::release);
}

void MigrationWatch::collect(const Engine& engine) {
  if (!std::exchange(is_rolled_back_, false)) return;
  const EngineHealth health = engine.health();
  rollbacks_.push_back({health.epoch, health.last_failure->code, health.last_failure->message, has_said_no_});
}

}  // namespace trimtab::moe
