// SPDX-License-Identifier: Apache-2.0
#include "app/run_view.hpp"

#include "app/console.hpp"
#include "report/printable.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <string_view>

namespace trimtab {
namespace {

constexpr std::string_view wipe = "\r\033[K";
constexpr std::string_view wipe_and_go_up = "\r\033[K\033[A";
/// Fits a usual terminal.
constexpr std::size_t columns = 78;

std::string_view name_of(moe::ArmId arm) { return arm == moe::ArmId::off ? "off" : "on"; }

/// How often a domain chose each expert of the last layer, where domains differ most.
std::vector<double> heat_of(const moe::TextSession& session, std::size_t domain) {
  const std::size_t experts = session.experts().experts();
  const std::size_t layers = session.experts().layers();
  const auto heat = std::span(session.counts().heat).subspan(((domain + 1) * layers - 1) * experts, experts);
  return {heat.begin(), heat.end()};
}

std::string domain_line(const moe::TextSession& session, std::size_t domain) {
  const moe::DomainCount& count = session.counts().domains[domain];
  const std::string name = last_columns(session.traffic().domains[domain].name, 12);
  const std::string bits =
      count.bytes == 0 ? "" : fmt::format("{:.2f} bits/byte", count.bits / static_cast<double>(count.bytes));
  constexpr std::size_t most_experts = 40;
  std::vector<double> heat = heat_of(session, domain);
  heat.resize(std::min(heat.size(), most_experts));
  return fmt::format("  {:<12} {}  {}", name, bars(heat), bits);
}

std::string said_line(const moe::TextSession& session) {
  const moe::TextAnswer* answer = session.being_said();
  if (answer == nullptr) return "";
  std::string text(answer->request.prompt.begin() + 1, answer->request.prompt.end());
  text += "|";
  text.append(answer->said.begin(), answer->said.end());
  return "  " + last_columns(text, columns - 2);
}

}  // namespace

void RunView::on_text(moe::ArmId, const moe::TextSession& session) {
  text_.clear();
  for (std::size_t domain = 0; domain < session.traffic().domains.size(); ++domain)
    text_.push_back(domain_line(session, domain));
  text_.push_back(said_line(session));
}

void RunView::on_forward(moe::ArmId arm, std::uint64_t forwards_done, std::uint64_t forwards_total) {
  const auto now = std::chrono::steady_clock::now();
  if (now - last_drawn_ < std::chrono::milliseconds(100)) return;
  last_drawn_ = now;
  std::vector<std::string> lines{
      fmt::format("serving forward {} of {}, balancing {}", forwards_done, forwards_total, name_of(arm))};
  lines.insert(lines.end(), text_.begin(), text_.end());
  draw(lines);
}

void RunView::draw(const std::vector<std::string>& lines) {
  std::string out;
  for (std::size_t i = 1; i < lines_.size(); ++i) out += wipe_and_go_up;
  out += wipe;
  out += fmt::format("{}", fmt::join(lines, "\n"));
  lines_ = lines;
  print_talk(out);
}

void RunView::on_block(const moe::BlockReport& block) {
  const std::vector<std::string> below = lines_;
  draw({});
  if (!has_header_) {
    print_talk(fmt::format("{:>9}  {:<9}  {:>9}  {:>5}  {:>5}  {:>8}  {:>8}\n", "forwards", "balancing",
                           "imbalance", "epoch", "moves", "moved MB", "stall ms"));
    has_header_ = true;
  }
  const std::string forwards =
      fmt::format("{}-{}", block.first_forward, block.first_forward + block.num_forwards - 1);
  print_talk(fmt::format("{:>9}  {:<9}  {:>9.3f}  {:>5}  {:>5}  {:>8.1f}  {:>8.1f}\n", forwards,
                         name_of(block.arm), block.imbalance, block.epoch, block.slots_moved,
                         static_cast<double>(block.bytes_moved) / 1e6, block.stall_ms));
  draw(below);
}

void RunView::finish() { draw({}); }

}  // namespace trimtab
