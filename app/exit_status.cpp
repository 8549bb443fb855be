// SPDX-License-Identifier: Apache-2.0
#include "app/exit_status.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>

namespace trimtab {
namespace {

struct Meaning {
  ExitStatus status;
  std::string_view text;
};

constexpr std::array meanings{
    Meaning{ExitStatus::ok, "ok"},
    Meaning{ExitStatus::check_failed, "a check failed"},
    Meaning{ExitStatus::usage, "usage: an option is unknown, missing or out of its range"},
    Meaning{ExitStatus::bad_input, "bad input: a file cannot be read or written, or its content is wrong"},
    Meaning{ExitStatus::infeasible, "infeasible: sound input, but no answer under the given limits"},
    Meaning{ExitStatus::rolled_back, "peer or transport failure, rolled back"},
    Meaning{ExitStatus::interrupted, "interrupted"},
};

}  // namespace

ExitStatus exit_status_of(Errc code) noexcept {
  switch (code) {
    case Errc::ok:
      return ExitStatus::ok;
    case Errc::invalid_argument:
    case Errc::not_found:
    case Errc::io:
      return ExitStatus::bad_input;
    case Errc::infeasible:
      return ExitStatus::infeasible;
    case Errc::unavailable:  // Asked for by an option, and not part of this build or machine.
      return ExitStatus::usage;
    case Errc::timeout:
    case Errc::closed:
    case Errc::peer_lost:
    case Errc::corrupt:
    case Errc::version_mismatch:
      return ExitStatus::rolled_back;
    case Errc::cancelled:
      return ExitStatus::interrupted;
    case Errc::internal:  // One of our own checks.
      return ExitStatus::check_failed;
  }
  return ExitStatus::check_failed;
}

std::string exit_status_help() {
  std::string help = "Exit status:\n";
  for (const Meaning& meaning : meanings) {
    help += fmt::format("  {:>3}  {}\n", static_cast<int>(meaning.status), meaning.text);
  }
  return help;
}

}  // namespace trimtab
