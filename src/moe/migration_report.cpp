// SPDX-License-Identifier: Apache-2.0
#include "moe/migration_report.hpp"

#include <algorithm>
#include <array>
#include <span>

namespace trimtab::moe {
namespace {

/// A rollback as it travels.
struct Record {
  static constexpr std::size_t max_text = 240;

  std::uint64_t epoch = 0;
  std::uint32_t code = 0;
  std::uint16_t is_cause = 0;
  std::uint16_t length = 0;
  std::array<char, max_text> text{};
};

Record pack(const Rollback& rollback) {
  Record record;
  record.epoch = rollback.epoch.value();
  record.code = static_cast<std::uint32_t>(rollback.code);
  record.is_cause = rollback.is_cause ? 1 : 0;
  record.length = static_cast<std::uint16_t>(std::min(rollback.why.size(), Record::max_text));
  std::copy_n(rollback.why.begin(), record.length, record.text.begin());
  return record;
}

Rollback unpack(const Record& record) {
  return {Epoch{record.epoch}, static_cast<Errc>(record.code), std::string(record.text.data(), record.length),
          record.is_cause != 0};
}

/// The largest of each over the ranks.
Status reduce_max(std::span<std::int64_t> values, Transport& root, const Clock& clock,
                  const CollectiveOptions& options) {
  std::vector<std::int64_t> all(values.size() * num_members(root, options));
  Status gathered =
      all_gather(root, clock, options, std::as_bytes(values), std::as_writable_bytes(std::span(all)));
  if (!gathered) return gathered;
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::int64_t& largest = values[i % values.size()];
    largest = std::max(largest, all[i]);
  }
  return {};
}

/// Every rank takes back the same steps; who caused it knows most. `count` is the largest over the ranks.
Status reduce_rollbacks(std::vector<Rollback>& rollbacks, std::size_t count, Transport& root,
                        const Clock& clock, const CollectiveOptions& options) {
  if (count == 0) return {};
  std::vector<Record> mine(count);
  std::ranges::transform(rollbacks, mine.begin(), pack);
  std::vector<Record> all(count * num_members(root, options));
  Status gathered = all_gather(root, clock, options, std::as_bytes(std::span(mine)),
                               std::as_writable_bytes(std::span(all)));
  if (!gathered) return gathered;
  rollbacks.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t best = i;
    for (std::size_t other = i; other < all.size(); other += count) {
      if (all[other].is_cause > all[best].is_cause || all[best].code == 0) best = other;
    }
    rollbacks[i] = unpack(all[best]);
  }
  return {};
}

}  // namespace

Status reduce(MigrationReport& report, Transport& root, const Clock& clock,
              const CollectiveOptions& options) {
  MigrationBuffers& buffers = report.buffers;
  std::vector<std::int64_t> values{static_cast<std::int64_t>(report.rollbacks.size()),
                                   static_cast<std::int64_t>(buffers.staging_budget_bytes),
                                   static_cast<std::int64_t>(buffers.staging_peak_bytes),
                                   static_cast<std::int64_t>(buffers.workspace_bytes),
                                   static_cast<std::int64_t>(buffers.transport_buffer_bytes)};
  const std::size_t num_others = values.size();
  values.insert(values.end(), report.struck.begin(), report.struck.end());
  if (Status reduced = reduce_max(values, root, clock, options); !reduced) return reduced;
  buffers = {static_cast<std::size_t>(values[1]), static_cast<std::size_t>(values[2]),
             static_cast<std::size_t>(values[3]), static_cast<std::size_t>(values[4])};
  for (std::size_t i = 0; i < report.struck.size(); ++i) report.struck[i] = values[num_others + i] != 0;
  return reduce_rollbacks(report.rollbacks, static_cast<std::size_t>(values[0]), root, clock, options);
}

}  // namespace trimtab::moe
