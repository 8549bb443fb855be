// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/route/routing_table.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <source_location>
#include <span>
#include <vector>

namespace trimtab::test {

/// Numbers drawn from a fuzzer's bytes; zeros when they are used up.
class FuzzInput {
 public:
  explicit FuzzInput(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  [[nodiscard]] bool is_empty() const noexcept { return bytes_.empty(); }
  [[nodiscard]] std::uint8_t byte() noexcept {
    if (bytes_.empty()) return 0;
    const std::uint8_t value = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return value;
  }
  [[nodiscard]] std::int32_t below(std::int32_t limit) noexcept { return byte() % limit; }
  template <class Int>
  [[nodiscard]] Int number() noexcept {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < sizeof(Int); ++i) value = value << 8 | byte();
    return static_cast<Int>(value);
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

/// Ends the program, so that a fuzzer keeps the input.
inline void require(bool holds, std::source_location where = std::source_location::current()) {
  if (holds) return;
  std::fprintf(stderr, "%s:%u: does not hold\n", where.file_name(), static_cast<unsigned>(where.line()));
  std::abort();
}

/// What a table is compiled from. Mostly sound, sometimes not.
struct TableCase {
  std::optional<Placement> placement;
  std::optional<Topology> topology;
  std::optional<Split> split;
  std::vector<std::int64_t> source_loads;
  std::optional<RoutingTable> table;  ///< When it compiles.
};
[[nodiscard]] TableCase draw_table(FuzzInput& input);

/// Every invariant that holds of a table.
void require_sound(const TableCase& drawn);

/// The fuzz targets: one input each.
void fuzz_table(std::span<const std::uint8_t> bytes);
void fuzz_dispatch(std::span<const std::uint8_t> bytes);
void fuzz_buffer(std::span<const std::uint8_t> bytes);
void fuzz_header(std::span<const std::uint8_t> bytes);
void fuzz_trace(std::span<const std::uint8_t> bytes);

}  // namespace trimtab::test
