// SPDX-License-Identifier: Apache-2.0
#include "moe/service.hpp"

#include "moe/arm.hpp"
#include "moe/members.hpp"
#include "moe/workload.hpp"

#include <trimtab/core/imbalance.hpp>
#include <trimtab/transport/collectives.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <numeric>

namespace trimtab::moe {
namespace {

/// One rank's run: serves the blocks in ABBA order and adds up what both arms did.
class RankService {
 public:
  RankService(const ServiceOptions& options, Transport& root, const Clock& clock, ServiceObserver* observer)
      : options_(options),
        clock_(clock),
        observer_(root.rank() == Rank{0} ? observer : nullptr),
        root_(root),
        replicated_(options.model, *weights_of(options)),
        members_(options, root, clock, arms_),
        workload_(make_workload(options, root.rank())) {}

  Result<ServiceReport> run();

 private:
  Result<bool> begin_together(ArmId id);
  Status serve_block(ArmId id, std::uint64_t block);
  Result<bool> serve(ArmId id, std::uint64_t forward);
  Status serve_off(std::uint64_t first_forward);
  Status serve_on(std::uint64_t first_forward, std::uint64_t from);
  void load(std::uint64_t first_forward, std::uint64_t from);
  Status end_together(ArmId id, std::uint64_t first_forward);
  void note_repeated(std::uint64_t forward);
  Result<bool> time_block(ArmId id, std::uint64_t first_forward, double& seconds);
  Status count_tokens(ArmId id, BlockReport& block);
  Result<BlockReport> reduce_block(ArmId id, const ArmBlock& mine);
  Status finish();
  void finish_rates();
  Status finish_migration();
  Status finish_death();
  Status finish_traffic();
  Status finish_replays();
  Status finish_times();

  void tell_forward(ArmId id, std::uint64_t forwards_of_block);

  [[nodiscard]] Arm& arm(ArmId id) { return *arms_[static_cast<std::size_t>(id)]; }
  const ServiceOptions& options_;
  const Clock& clock_;
  ServiceObserver* observer_;
  Transport& root_;
  ReplicatedWeights replicated_;
  Arms arms_;
  Members members_;
  std::unique_ptr<Workload> workload_;
  std::optional<std::uint64_t> repeated_;  ///< First forward of the stream that was served again.

  ServiceReport report_;
  std::vector<Quad> quads_;
  std::array<std::vector<double>, 2> block_tokens_per_s_;
  ArmBlock total_;  ///< Of the on arm on this rank.
};

Result<ServiceReport> RankService::run() {
  for (ArmId id : {ArmId::off, ArmId::on}) {
    Result<std::unique_ptr<Arm>> made =
        Arm::make(id, options_, replicated_, root_, clock_, members_.watch(), workload_->around(id));
    if (!made) return failure(std::move(made));
    arms_[static_cast<std::size_t>(id)] = std::move(*made);
  }
  for (std::uint64_t quad = 0; quad < options_.num_quads; ++quad) {
    for (const auto& [id, half] :
         {std::pair{ArmId::off, 0U}, {ArmId::on, 0U}, {ArmId::on, 1U}, {ArmId::off, 1U}}) {
      if (id == ArmId::off && members_.has_lost_rank()) continue;
      if (Status served = serve_block(id, 2 * quad + half); !served) return failure(std::move(served));
    }
  }
  if (Status finished = finish(); !finished) return failure(std::move(finished));
  members_.part();
  return std::move(report_);
}

Status RankService::serve_block(ArmId id, std::uint64_t block) {
  const std::uint64_t first = block * options_.block_forwards;
  load(first, 0);
  arm(id).begin_block();
  double seconds = 0.0;
  const Result<bool> timed = time_block(id, first, seconds);
  if (!timed) return tl::unexpected(timed.error());
  if (!*timed) return {};
  ArmBlock mine = arm(id).take_block();
  mine.rows.resize(options_.block_forwards * options_.model.layers());
  Result<BlockReport> reduced = reduce_block(id, mine);
  if (!reduced) return failure(std::move(reduced));
  if (id == ArmId::off && members_.has_lost_rank()) return {};
  workload_->end_block(id, first, first + options_.block_forwards, repeated_);
  reduced->first_forward = first;
  reduced->seconds = seconds;
  // What is served without a rank is no measure of balancing.
  if (members_.has_lost_rank()) {
    quads_.resize(std::min<std::size_t>(quads_.size(), block / 2));
  } else {
    quads_.resize(std::max<std::size_t>(quads_.size(), block / 2 + 1));
    (id == ArmId::off ? quads_.back().off_s : quads_.back().on_s) += seconds;
  }
  block_tokens_per_s_[static_cast<std::size_t>(id)].push_back(static_cast<double>(reduced->tokens) / seconds);
  if (observer_ != nullptr) observer_->on_block(*reduced);
  report_.blocks.push_back(*reduced);
  return {};
}

void RankService::tell_forward(ArmId id, std::uint64_t forwards_of_block) {
  if (observer_ == nullptr) return;
  observer_->on_forward(id, report_.blocks.size() * options_.block_forwards + forwards_of_block,
                        2 * options_.forwards());
}

void RankService::load(std::uint64_t first_forward, std::uint64_t from) {
  workload_->load(members_.ranks(), first_forward + from, first_forward + options_.block_forwards);
}

Result<bool> RankService::serve(ArmId id, std::uint64_t forward) {
  Result<bool> served = arm(id).serve(forward, workload_->begin(id, forward));
  if (!served || !*served) return served;
  workload_->finish(id, forward);
  if (observer_ != nullptr) workload_->show(id, *observer_);
  return served;
}

/// Ends early when a rank is lost: what is left of the block is for nobody.
Status RankService::serve_off(std::uint64_t first_forward) {
  for (std::uint64_t i = 0; i < options_.block_forwards && !members_.has_lost_rank(); ++i) {
    const Result<bool> served = serve(ArmId::off, first_forward + i);
    if (served) {
      tell_forward(ArmId::off, i + 1);
    } else if (Status survived = members_.survive(tl::unexpected(served.error())); !survived) {
      return survived;
    }
  }
  return {};
}

/// When a rank is lost, the block goes on from the first forward that not all others have finished.
Status RankService::serve_on(std::uint64_t first_forward, std::uint64_t from) {
  Arm& on = arm(ArmId::on);
  for (std::uint64_t i = from;;) {
    const bool is_over = i == options_.block_forwards;
    const Result<bool> served = is_over ? on.settle() : serve(ArmId::on, first_forward + i);
    if (!served) return tl::unexpected(served.error());
    if (*served && is_over) return {};
    if (*served) {
      tell_forward(ArmId::on, ++i);
      continue;
    }
    if (Status entered = members_.enter_view(); !entered) return entered;
    i = std::min(on.resume(), options_.block_forwards);
    note_repeated(first_forward + i);
    load(first_forward, i);
  }
}

void RankService::note_repeated(std::uint64_t forward) {
  if (!repeated_) repeated_ = forward;
}

/// False when the block is not begun: nobody has come to an off arm's before a rank was lost.
Result<bool> RankService::begin_together(ArmId id) {
  return members_.meet_unless([&]() -> Result<bool> { return id == ArmId::on || members_.is_behind(); });
}

/// When a rank is lost meanwhile, and all others are here or in the block's forwards, these go on as the new
/// view says.
Status RankService::end_together(ArmId id, std::uint64_t first_forward) {
  const Result<bool> met = members_.meet_unless([&]() -> Result<bool> {
    if (id == ArmId::off || members_.is_behind()) return true;
    const std::uint64_t from = std::min(arm(id).resume(), options_.block_forwards);
    load(first_forward, from);
    if (from < options_.block_forwards) note_repeated(first_forward + from);
    if (Status served = serve_on(first_forward, from); !served) return failure(std::move(served));
    return true;
  });
  return met ? Status{} : failure(met.error().code, met.error().message);
}

/// From a barrier before the first forward to a barrier after the arm's last work: the slowest rank counts.
Result<bool> RankService::time_block(ArmId id, std::uint64_t first_forward, double& seconds) {
  const std::uint32_t view = members_.view();
  Result<bool> is_begun = begin_together(id);
  if (!is_begun || !*is_begun) return is_begun;
  if (members_.view() != view) load(first_forward, 0);
  if (members_.has_lost_rank()) note_repeated(first_forward);
  const Clock::time_point begun = clock_.now();
  Status served = id == ArmId::off ? serve_off(first_forward) : serve_on(first_forward, 0);
  if (served) served = end_together(id, first_forward);
  if (!served) return failure(std::move(served));
  seconds = std::chrono::duration<double>(clock_.now() - begun).count();
  return true;
}

/// What all ranks served in one block.
Status RankService::count_tokens(ArmId id, BlockReport& block) {
  const ServedTokens mine = workload_->take(id);
  const Result<std::vector<std::int64_t>> all =
      members_.gather(std::array{mine.tokens, mine.prompt_bytes, std::bit_cast<std::int64_t>(mine.bits)});
  if (!all) return tl::unexpected(all.error());
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < all->size(); i += 3) {
    block.tokens += (*all)[i];
    bytes += (*all)[i + 1];
    block.bits_per_byte += std::bit_cast<double>((*all)[i + 2]);
  }
  block.bits_per_byte /= static_cast<double>(std::max<std::int64_t>(1, bytes));
  return {};
}

/// Sums and gathers one block over the ranks; adds this rank's part to the totals.
Result<BlockReport> RankService::reduce_block(ArmId id, const ArmBlock& mine) {
  BlockReport block;
  block.arm = id;
  block.num_forwards = options_.block_forwards;
  block.epoch = arm(id).epoch();
  Result<std::vector<std::int64_t>> rows = members_.gather(mine.rows);
  if (!rows) return failure(std::move(rows));
  block.imbalance = 0.0;
  for (std::size_t i = 0; i < mine.rows.size(); ++i) {
    std::vector<double> by_rank(static_cast<std::size_t>(root_.num_ranks()));
    for (std::size_t m = 0; m < members_.ranks().size(); ++m)
      by_rank[members_.ranks()[m].index()] = static_cast<double>((*rows)[m * mine.rows.size() + i]);
    block.imbalance += compute_imbalance(by_rank, arm(id).topology()).max_over_mean() /
                       static_cast<double>(mine.rows.size());
  }
  std::array<std::int64_t, 2> moved{mine.slots_moved, mine.bytes_moved};
  if (Status summed = members_.sum(moved); !summed) return failure(std::move(summed));
  block.slots_moved = moved[0];
  block.bytes_moved = moved[1];
  if (Status counted = count_tokens(id, block); !counted) return failure(std::move(counted));
  const std::array<std::int64_t, 1> stall{mine.stall.count()};
  Result<std::vector<std::int64_t>> stalls = members_.gather(stall);
  if (!stalls) return failure(std::move(stalls));
  block.stall_ms = to_ms(Clock::duration(*std::ranges::max_element(*stalls)));
  if (id == ArmId::on) total_.add(mine);
  return block;
}

Status RankService::finish() {
  const bool identical = workload_->equals_reference() && workload_->arms_agree();
  std::array<std::int64_t, 8> sums{identical ? 0 : 1,
                                   workload_->num_checked(),
                                   total_.slots_moved,
                                   total_.bytes_moved,
                                   total_.bytes_copied,
                                   total_.rows_on_moved_slots,
                                   total_.unchanged_slots_written,
                                   total_.windows_refused};
  if (Status summed = members_.sum(sums); !summed) return summed;
  report_.outputs_identical = sums[0] == 0;
  report_.reference_checked = sums[1];
  report_.slots_moved = sums[2];
  report_.bytes_moved = sums[3];
  report_.bytes_copied = sums[4];
  report_.rows_on_moved_slots = sums[5];
  report_.unchanged_slots_written = sums[6];
  report_.windows_refused =
      sums[7] /
      static_cast<std::int64_t>(members_.ranks().size());  // A refused window is refused on every rank.
  report_.epochs = total_.epochs;
  report_.rolled_back = total_.rolled_back;
  report_.splits = total_.splits;
  report_.migrations = total_.programs - total_.rolled_back;
  report_.last_problem = arm(ArmId::on).last_problem();
  report_.speedup = compute_speedup(quads_);
  finish_rates();
  if (Status reduced = finish_migration(); !reduced) return reduced;
  if (Status finished = finish_death(); !finished) return finished;
  if (Status told = workload_->report(members_, report_); !told) return told;
  if (Status summed = finish_traffic(); !summed) return summed;
  if (Status summed = finish_replays(); !summed) return summed;
  return finish_times();
}

void RankService::finish_rates() {
  for (std::size_t a = 0; a < 2; ++a) {
    const std::vector<double>& rates = block_tokens_per_s_[a];
    double seconds = 0.0;
    double imbalance = 0.0;
    std::int64_t tokens = 0;
    for (const BlockReport& block : report_.blocks) {
      if (static_cast<std::size_t>(block.arm) != a) continue;
      seconds += block.seconds;
      imbalance += block.imbalance;
      tokens += block.tokens;
    }
    const auto n = static_cast<double>(rates.size());
    const double mean = std::accumulate(rates.begin(), rates.end(), 0.0) / n;
    double squares = 0.0;
    for (double rate : rates) squares += (rate - mean) * (rate - mean);
    report_.imbalance_mean[a] = imbalance / n;
    report_.tokens_per_s[a] = static_cast<double>(tokens) / seconds;
    report_.tokens_per_s_deviation[a] = n > 1.0 ? std::sqrt(squares / (n - 1.0)) : 0.0;
  }
}

Status RankService::finish_migration() {
  const MigrationReport mine = arm(ArmId::on).migration();
  const auto reduced = std::make_shared<MigrationReport>();
  Status met = members_.meet([this, reduced, mine](const CollectiveOptions& options) {
    *reduced = mine;
    return reduce(*reduced, root_, clock_, options);
  });
  report_.migration = *reduced;
  return met;
}

/// Met for by all, for some may know of a death that others have not heard of.
Status RankService::finish_death() {
  const std::optional<DeathReport> mine = arm(ArmId::on).death();
  std::array<std::int64_t, 2> sums{mine ? mine->bytes_recovered : 0, workload_->tokens_taken_over()};
  if (Status summed = members_.sum(sums); !summed) return summed;
  const auto us = static_cast<std::int64_t>(mine ? mine->recovery_ms * 1000.0 : 0.0);
  const Result<std::vector<std::int64_t>> all = members_.gather({&us, 1});
  if (!all) return tl::unexpected(all.error());
  report_.death = arm(ArmId::on).death();
  if (!report_.death) return {};
  report_.death->bytes_recovered = sums[0];
  report_.death->tokens_taken_over = sums[1];
  report_.death->recovery_ms = static_cast<double>(*std::ranges::max_element(*all)) / 1000.0;
  report_.death->forward = repeated_.value_or(options_.forwards());
  return {};
}

Status RankService::finish_traffic() {
  const ServiceTraffic off = arm(ArmId::off).traffic();
  const ServiceTraffic on = arm(ArmId::on).traffic();
  std::array<std::int64_t, 4> sums{off.forward.within_nodes + on.forward.within_nodes,
                                   off.forward.between_nodes + on.forward.between_nodes,
                                   on.migration.within_nodes, on.migration.between_nodes};
  if (Status summed = members_.sum(sums); !summed) return summed;
  report_.traffic = {.forward = {sums[0], sums[1]}, .migration = {sums[2], sums[3]}};
  return {};
}

Status RankService::finish_replays() {
  const ReplayReport off = arm(ArmId::off).replays();
  const ReplayReport on = arm(ArmId::on).replays();
  std::array<std::int64_t, 4> sums{off.replays + on.replays, off.tokens + on.tokens,
                                   off.padded_rows + on.padded_rows, off.tables + on.tables};
  if (Status summed = members_.sum(sums); !summed) return summed;
  report_.replays = {on.sizes, sums[0], sums[1], sums[2], sums[3]};
  return {};
}

Status RankService::finish_times() {
  const std::array<std::int64_t, 5> mine{total_.record.count(), total_.split.count(), total_.plan.count(),
                                         total_.migrate.count(), total_.stall.count()};
  Result<std::vector<std::int64_t>> all = members_.gather(mine);
  if (!all) return failure(std::move(all));
  const std::array<double*, mine.size()> out{&report_.record_ms, &report_.split_ms, &report_.plan_ms,
                                             &report_.migrate_ms, &report_.stall_ms};
  for (std::size_t i = 0; i < all->size(); ++i) {
    double& largest = *out[i % out.size()];
    largest = std::max(largest, to_ms(Clock::duration((*all)[i])));
  }
  return {};
}

}  // namespace

Result<ServiceReport> serve_rank(const ServiceOptions& options, Transport& root, const Clock& clock,
                                 ServiceObserver* observer) {
  RankService service(options, root, clock, observer);
  return service.run();
}

}  // namespace trimtab::moe
