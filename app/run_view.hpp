// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "moe/service.hpp"

#include <chrono>

namespace trimtab {

/// The live table of `trimtab run` on standard error: a row per block, and below it a line that says where
/// the run is. Used on a terminal only; on the thread of rank 0.
class RunView final : public moe::ServiceObserver {
 public:
  void on_forward(moe::ArmId arm, std::uint64_t forwards_done, std::uint64_t forwards_total) override;
  void on_block(const moe::BlockReport& block) override;
  /// Wipes the status line.
  void finish();

 private:
  std::chrono::steady_clock::time_point last_drawn_;
  bool has_header_ = false;
};

}  // namespace trimtab
