// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

namespace trimtab::moe {

/// Seconds of one ABBA quad: the two blocks without balancing (A) and the two with (B) that served the same
/// tokens.
struct Quad {
  double off_s = 0.0;
  double on_s = 0.0;
};

/// Speed-up with its 95 % interval.
struct Speedup {
  double mean = 1.0;  ///< exp(mean of log(off / on)).
  double low = 1.0;   ///< Ends of the Student t interval of the mean log ratio, taken back from logs.
  double high = 1.0;
};

/// Over all quads. Fewer than two quads give an interval from 0 to infinity.
[[nodiscard]] Speedup compute_speedup(std::span<const Quad> quads);

/// Two-sided 95 % quantile of Student's t with `degrees` >= 1 degrees of freedom, to four digits.
[[nodiscard]] double student_t_95(int degrees);

}  // namespace trimtab::moe
