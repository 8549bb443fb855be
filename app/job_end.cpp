// SPDX-License-Identifier: Apache-2.0
#include "app/job_end.hpp"

#include "app/console.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <vector>

namespace trimtab {
namespace {

/// An error as it travels; longer text is cut.
struct WireError {
  std::uint32_t code = 0;
  std::uint32_t length = 0;
  std::array<char, 1016> text{};
};

WireError pack(const Status& status) {
  WireError wire;
  if (status) return wire;
  wire.code = static_cast<std::uint32_t>(status.error().code);
  wire.length = static_cast<std::uint32_t>(status.error().message.copy(wire.text.data(), wire.text.size()));
  return wire;
}

}  // namespace

MpiLimits job_limits(std::string who, std::chrono::milliseconds deadline) {
  return {.deadline = deadline,
          .exit_code = static_cast<int>(ExitStatus::rolled_back),
          .say = [who = std::move(who)](const std::string& message) { print_error(who, message); }};
}

Result<Status> agree(Transport& root, const Clock& clock, const CollectiveOptions& options,
                     const Status& mine) {
  const WireError wire = pack(mine);
  std::vector<WireError> all(static_cast<std::size_t>(root.num_ranks()));
  if (Status gathered = all_gather(root, clock, options, std::as_bytes(std::span(&wire, 1)),
                                   std::as_writable_bytes(std::span(all)));
      !gathered)
    return failure(std::move(gathered));
  const auto first = std::ranges::find_if(all, [](const WireError& error) { return error.code != 0; });
  if (first == all.end()) return Status{};
  const std::string text(first->text.data(), first->length);
  const auto rank = first - all.begin();
  return Status(
      failure(static_cast<Errc>(first->code), rank == 0 ? text : fmt::format("rank {}: {}", rank, text)));
}

ExitStatus say_before_end(std::string_view who, const Outcome& outcome, bool speaks) {
  Outcome settled = outcome;
  if (std::fflush(stdout) != 0 && outcome) settled = failure(Errc::io, "standard output: cannot be written");
  if (settled) return *settled;
  if (speaks) print_error(who, settled.error().message);
  return exit_status_of(settled.error().code);
}

}  // namespace trimtab
