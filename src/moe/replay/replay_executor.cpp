// SPDX-License-Identifier: Apache-2.0
#include "moe/replay/replay_executor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace trimtab::moe {
namespace {

/// Powers of two and the largest, as engines choose them: at most half of a batch is padding.
std::vector<std::int64_t> sizes_up_to(std::size_t max_tokens) {
  const auto largest = static_cast<std::int64_t>(max_tokens);
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = 1; size < largest; size *= 2) sizes.push_back(size);
  sizes.push_back(largest);
  return sizes;
}

ExecutorOptions with_room(ExecutorOptions options) {
  options.max_tokens = std::max<std::size_t>(options.max_tokens, 1);
  return options;
}

TableBufferHead head_of(std::span<const std::byte> memory) noexcept {
  TableBufferHead head;
  std::memcpy(&head, memory.data(), sizeof head);
  return head;
}

bool holds(std::span<const std::byte> memory, TableIdentity identity) noexcept {
  const TableBufferHead head = head_of(memory);
  return head.sequence != 0 && head.epoch == identity.epoch.value() &&
         head.split_version == identity.split_version;
}

}  // namespace

Result<std::unique_ptr<ReplayExecutor>> ReplayExecutor::make(const ExecutorOptions& options,
                                                             const ExecutorParts& parts) {
  if (Status s = check_parts(options, parts); !s) return failure(std::move(s));
  std::unique_ptr<ReplayExecutor> made(new ReplayExecutor(with_room(options), parts));
  if (Status s = made->record(); !s) return failure(std::move(s));
  return made;
}

ReplayExecutor::ReplayExecutor(const ExecutorOptions& options, const ExecutorParts& parts)
    : options_(options),
      parts_(parts),
      memory_(options.config, parts.topology, parts.channel.rank(), options.max_tokens),
      gate_(options.config, parts.weights, options.max_tokens),
      kernel_(options.config),
      scratch_(options.config),
      all_to_all_(parts.channel, parts.topology, parts.clock, options.deadline, parts.while_waiting,
                  [this](Rank peer) {
                    if (parts_.on_unheard) parts_.on_unheard(memory_.input.number, peer);
                  }) {
  enter_view(0);
}

Status ReplayExecutor::record() {
  Result<TableBuffer> table = TableBuffer::make(memory_.table(), memory_.table_capacity);
  if (!table) return failure(std::move(table));
  table_ = *table;
  report_.sizes = sizes_up_to(options_.max_tokens);
  const Recording with{options_, parts_, memory_, gate_, kernel_, scratch_, all_to_all_};
  for (const std::int64_t size : report_.sizes) recorded_.emplace_back(with, static_cast<std::size_t>(size));
  return {};
}

void ReplayExecutor::enter_view(std::uint32_t number) noexcept {
  memory_.input.rows_tag = Tag{rows_tag.value() + 2 * number};
  memory_.input.answers_tag = Tag{answers_tag.value() + 2 * number};
}

Status ReplayExecutor::forward(Forward number, std::span<float> states, std::span<const float> bias,
                               const RoutingTable& table) {
  if (Status s = check_input(options_, states, bias, table); !s) return s;
  const Clock::time_point begun = parts_.clock.now();
  memory_.input.number = number;
  Status done = run(states, bias, table);
  times_.forward += parts_.clock.now() - begun;
  return end_forward(std::move(done), options_, parts_, all_to_all_);
}

Status ReplayExecutor::run(std::span<float> states, std::span<const float> bias, const RoutingTable& table) {
  if (Status s = publish(table); !s) return s;
  const std::size_t tokens = states.size() / options_.config.width();
  const RecordedForward& recorded = smallest_for(tokens);
  memory_.input.num_tokens = tokens;
  std::ranges::copy(bias, memory_.bias.begin());
  std::ranges::copy(states, memory_.states.begin());
  if (Status s = recorded.replay(times_, parts_.clock); !s) return s;
  if (Status s = check_table(table.identity()); !s) return s;
  std::copy_n(memory_.states.begin(), states.size(), states.begin());
  ++report_.replays;
  report_.tokens += static_cast<std::int64_t>(tokens);
  report_.padded_rows += static_cast<std::int64_t>(recorded.tokens() - tokens);
  return {};
}

Status ReplayExecutor::publish(const RoutingTable& table) {
  if (!holds(memory_.table(), table.identity())) {
    if (Status s = table_->publish_at_boundary(table); !s) return s;
    ++report_.tables;
  }
  return check_table(table.identity());
}

/// Of what a replay is about to read, and of what it has read: nobody writes in between, or this finds it.
Status ReplayExecutor::check_table(TableIdentity expected) const {
  const Result<RoutingTable> found = read_table_buffer(memory_.table(), parts_.topology);
  if (!found) return tl::unexpected(found.error());
  const TableIdentity identity = found->identity();
  if (identity == expected) return {};
  return failure(
      Errc::version_mismatch,
      fmt::format("the table buffer holds epoch {}, split {}, not epoch {}, split {}", identity.epoch.value(),
                  identity.split_version, expected.epoch.value(), expected.split_version));
}

const RecordedForward& ReplayExecutor::smallest_for(std::size_t tokens) const noexcept {
  return *std::ranges::find_if(recorded_, [&](const RecordedForward& f) { return f.tokens() >= tokens; });
}

std::span<const std::int64_t> ReplayExecutor::rows(LayerId layer) const noexcept {
  const std::size_t local = parts_.memory.slots().size();
  return std::span(memory_.rows).subspan(layer.index() * local, local);
}

}  // namespace trimtab::moe
