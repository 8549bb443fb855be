// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>

namespace trimtab {

// Random numbers and functions that are the same, bit for bit, on every machine and with every standard
// library: only integer arithmetic and the four operations that IEEE 754 rounds exactly.
// (std::normal_distribution is free to differ between libraries, std::exp and std::log in the last bit.)

/// A hash of its arguments: the random number of one place in the output, so that no place depends on how
/// many numbers were drawn before it.
[[nodiscard]] std::uint64_t random_bits(std::initializer_list<std::uint64_t> place) noexcept;

/// In [0, 1), multiples of 2^-53.
[[nodiscard]] double uniform(std::initializer_list<std::uint64_t> place) noexcept;

/// Mean 0, variance 1, nearly Gaussian: a sum of twelve uniform numbers. Never beyond ±6.
[[nodiscard]] double nearly_gaussian(std::initializer_list<std::uint64_t> place) noexcept;

/// e^x to about 1e-15 relative, for |x| <= 700.
[[nodiscard]] double repeatable_exp(double x) noexcept;

/// Natural logarithm to about 1e-15, for finite x > 0.
[[nodiscard]] double repeatable_log(double x) noexcept;

}  // namespace trimtab
