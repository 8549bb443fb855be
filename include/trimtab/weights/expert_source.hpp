// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/core/result.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace trimtab {

/// What a source has done so far.
struct SourceCounters {
  std::uint64_t bundles_read = 0;
  std::uint64_t bytes_read = 0;
  std::uint64_t num_failed = 0;              ///< Reads that returned an error.
  std::chrono::nanoseconds time_reading{0};  ///< Summed over threads.
};

/// Where an expert's bundle can be had when no rank holds it any more: a checkpoint, a copy in memory.
///
/// Threads: all calls but those that a derived class says may run together.
class ExpertSource {
 public:
  ExpertSource() = default;
  ExpertSource(const ExpertSource&) = delete;
  ExpertSource& operator=(const ExpertSource&) = delete;
  virtual ~ExpertSource() = default;

  [[nodiscard]] virtual bool holds(LayerId layer, ExpertId expert) const = 0;
  /// Whether a bundle's bytes are compared with a checksum taken when they were stored; else only their
  /// number is. False for what it does not hold.
  [[nodiscard]] virtual bool is_verified(LayerId layer, ExpertId expert) const = 0;
  /// What and where it is, for messages.
  [[nodiscard]] virtual std::string describe() const = 0;

  /// Fills `bundle` as `ExpertStore::read_bundle` would: tensor after tensor, rows without gaps. Blocks until
  /// all of it is there.
  /// @return `not_found` when it does not hold the expert; `invalid_argument` when `bundle` has not its size;
  ///         `io` when it cannot be read; `corrupt` when its bytes are not those that were stored. Then
  ///         `bundle` is unspecified, so callers read into staging only. Messages name layer and expert.
  Status read(LayerId layer, ExpertId expert, std::span<std::byte> bundle);

  [[nodiscard]] SourceCounters counters() const noexcept;

 private:
  /// `read` without the counting.
  virtual Status read_bundle(LayerId layer, ExpertId expert, std::span<std::byte> bundle) = 0;

  std::atomic<std::uint64_t> bundles_read_{0};
  std::atomic<std::uint64_t> bytes_read_{0};
  std::atomic<std::uint64_t> num_failed_{0};
  std::atomic<std::int64_t> nanoseconds_{0};
};

/// Several sources, the cheapest first. An expert is read from the first that holds it; when that fails, from
/// the next one. Shares ownership.
class SourceChain final : public ExpertSource {
 public:
  explicit SourceChain(std::vector<std::shared_ptr<ExpertSource>> sources) : sources_(std::move(sources)) {}

  [[nodiscard]] bool holds(LayerId layer, ExpertId expert) const override;
  /// Whether every source that holds it is: any of them may have to serve.
  [[nodiscard]] bool is_verified(LayerId layer, ExpertId expert) const override;
  [[nodiscard]] std::string describe() const override;

 private:
  /// @return when all fail, the code of the last, and what each of them said.
  Status read_bundle(LayerId layer, ExpertId expert, std::span<std::byte> bundle) override;

  std::vector<std::shared_ptr<ExpertSource>> sources_;
};

}  // namespace trimtab
