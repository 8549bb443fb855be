// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "moe/service.hpp"

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace trimtab {

/// The live table of `trimtab run` on standard error: a row per block, and below it where the run is; with a
/// real model also which experts each domain asks for and what is being said. Used on a terminal only; on the
/// thread of rank 0.
class RunView final : public moe::ServiceObserver {
 public:
  void on_forward(moe::ArmId arm, std::uint64_t forwards_done, std::uint64_t forwards_total) override;
  void on_block(const moe::BlockReport& block) override;
  void on_text(moe::ArmId arm, const moe::TextSession& session) override;
  /// Wipes what stands below the table.
  void finish();

 private:
  void draw(const std::vector<std::string>& lines);

  std::chrono::steady_clock::time_point last_drawn_;
  bool has_header_ = false;
  std::vector<std::string> text_;   ///< Of the real model, as of its last forward.
  std::vector<std::string> lines_;  ///< Below the table.
};

}  // namespace trimtab
