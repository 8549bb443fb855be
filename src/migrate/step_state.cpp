// SPDX-License-Identifier: Apache-2.0
#include <trimtab/migrate/engine.hpp>

namespace trimtab {

std::string_view to_string(StepState state) noexcept {
  switch (state) {
    case StepState::idle:
      return "idle";
    case StepState::proposed:
      return "proposed";
    case StepState::staging:
      return "staging";
    case StepState::staged:
      return "staged";
    case StepState::draining:
      return "draining";
    case StepState::committing:
      return "committing";
    case StepState::committed:
      return "committed";
    case StepState::in_doubt:
      return "in_doubt";
  }
  return "unknown";
}

std::string_view to_string(StepEvent event) noexcept {
  switch (event) {
    case StepEvent::begin:
      return "begin";
    case StepEvent::start:
      return "start";
    case StepEvent::no_room:
      return "no_room";
    case StepEvent::vote_yes:
      return "vote_yes";
    case StepEvent::vote_no:
      return "vote_no";
    case StepEvent::commit:
      return "commit";
    case StepEvent::abort:
      return "abort";
    case StepEvent::drained:
      return "drained";
    case StepEvent::published:
      return "published";
    case StepEvent::unverified:
      return "unverified";
    case StepEvent::release:
      return "release";
    case StepEvent::deadline:
      return "deadline";
    case StepEvent::new_view_commit:
      return "new_view_commit";
    case StepEvent::new_view_abort:
      return "new_view_abort";
    case StepEvent::excluded:
      return "excluded";
    case StepEvent::no_quorum:
      return "no_quorum";
    case StepEvent::failed:
      return "failed";
  }
  return "unknown";
}

}  // namespace trimtab
