// SPDX-License-Identifier: Apache-2.0
#include "app/run_view.hpp"

#include "app/console.hpp"

#include <fmt/format.h>

namespace trimtab {
namespace {

constexpr std::string_view wipe = "\r\033[K";

std::string_view name_of(moe::ArmId arm) { return arm == moe::ArmId::off ? "off" : "on"; }

}  // namespace

void RunView::on_forward(moe::ArmId arm, std::uint64_t forwards_done, std::uint64_t forwards_total) {
  const auto now = std::chrono::steady_clock::now();
  if (now - last_drawn_ < std::chrono::milliseconds(100)) return;
  last_drawn_ = now;
  print_talk(fmt::format("{}serving forward {} of {}, balancing {}", wipe, forwards_done, forwards_total,
                         name_of(arm)));
}

void RunView::on_block(const moe::BlockReport& block) {
  if (!has_header_) {
    print_talk(fmt::format("{}{:>9}  {:<9}  {:>9}  {:>5}  {:>5}  {:>8}  {:>8}\n", wipe, "forwards",
                           "balancing", "imbalance", "epoch", "moves", "moved MB", "stall ms"));
    has_header_ = true;
  }
  const std::string forwards =
      fmt::format("{}-{}", block.first_forward, block.first_forward + block.num_forwards - 1);
  print_talk(fmt::format("{}{:>9}  {:<9}  {:>9.3f}  {:>5}  {:>5}  {:>8.1f}  {:>8.1f}\n", wipe, forwards,
                         name_of(block.arm), block.imbalance, block.epoch, block.slots_moved,
                         static_cast<double>(block.bytes_moved) / 1e6, block.stall_ms));
}

void RunView::finish() { print_talk(wipe); }

}  // namespace trimtab
