// SPDX-License-Identifier: Apache-2.0
#include "moe/service.hpp"

#include "moe/arm.hpp"
#include "moe/reference.hpp"
#include "moe/token_stream.hpp"

#include <trimtab/core/checksum.hpp>
#include <trimtab/core/imbalance.hpp>
#include <trimtab/transport/collectives.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace trimtab::moe {
namespace {

constexpr Tag measure_tag{1};

double to_ms(Clock::duration time) { return std::chrono::duration<double, std::milli>(time).count(); }

/// One rank's run: serves the blocks in ABBA order and adds up what both arms did.
class RankService {
 public:
  RankService(const ServiceOptions& options, Transport& root, const Clock& clock, ServiceObserver* observer)
      : options_(options),
        clock_(clock),
        observer_(root.rank() == Rank{0} ? observer : nullptr),
        root_(root),
        replicated_(options.model),
        states_per_forward_(static_cast<std::size_t>(options.tokens_per_rank) * options.model.width()),
        states_(states_per_forward_ * options.block_forwards),
        quads_(options.num_quads) {}

  Result<ServiceReport> run();

 private:
  Status serve_block(ArmId id, std::uint64_t block);
  void load_block(std::uint64_t first_forward);
  Status time_block(ArmId id, std::uint64_t first_forward, double& seconds);
  void keep_outputs(ArmId id, std::uint64_t first_forward);
  Result<BlockReport> reduce_block(ArmId id, const ArmBlock& mine);
  Status sum(std::span<std::int64_t> values);
  Result<std::vector<std::int64_t>> gather(std::span<const std::int64_t> mine);
  [[nodiscard]] bool is_reference_forward(std::uint64_t forward) const;
  [[nodiscard]] bool check_reference();
  Status finish();
  Status finish_traffic();
  Status finish_times();

  [[nodiscard]] Rank rank() const { return root_.rank(); }
  [[nodiscard]] Arm& arm(ArmId id) { return *arms_[static_cast<std::size_t>(id)]; }
  [[nodiscard]] std::span<float> states(std::uint64_t i) {
    return std::span(states_).subspan(i * states_per_forward_, states_per_forward_);
  }
  [[nodiscard]] CollectiveOptions collective() const { return {measure_tag, options_.deadline}; }

  const ServiceOptions& options_;
  const Clock& clock_;
  ServiceObserver* observer_;
  Transport& root_;
  ReplicatedWeights replicated_;
  std::array<std::unique_ptr<Arm>, 2> arms_;

  std::size_t states_per_forward_;
  std::vector<float> states_;  ///< Of one block: inputs become outputs.
  std::array<std::map<std::uint64_t, std::uint64_t>, 2> output_hashes_;  ///< By arm and forward.
  std::map<std::uint64_t, std::vector<float>> reference_outputs_;  ///< The off arm's, of sampled forwards.

  ServiceReport report_;
  std::vector<Quad> quads_;
  std::array<std::vector<double>, 2> block_tokens_per_s_;
  ArmBlock total_;  ///< Of the on arm on this rank.
};

Result<ServiceReport> RankService::run() {
  for (ArmId id : {ArmId::off, ArmId::on}) {
    Result<std::unique_ptr<Arm>> made = Arm::make(id, options_, replicated_, root_, clock_);
    if (!made) return failure(std::move(made));
    arms_[static_cast<std::size_t>(id)] = std::move(*made);
  }
  for (std::uint64_t quad = 0; quad < options_.num_quads; ++quad) {
    for (const auto& [id, half] :
         {std::pair{ArmId::off, 0U}, {ArmId::on, 0U}, {ArmId::on, 1U}, {ArmId::off, 1U}}) {
      if (Status served = serve_block(id, 2 * quad + half); !served) return failure(std::move(served));
    }
  }
  if (Status finished = finish(); !finished) return failure(std::move(finished));
  return std::move(report_);
}

Status RankService::serve_block(ArmId id, std::uint64_t block) {
  const std::uint64_t first = block * options_.block_forwards;
  load_block(first);
  arm(id).begin_block();
  double seconds = 0.0;
  if (Status timed = time_block(id, first, seconds); !timed) return timed;
  const ArmBlock mine = arm(id).take_block();
  keep_outputs(id, first);
  Result<BlockReport> reduced = reduce_block(id, mine);
  if (!reduced) return failure(std::move(reduced));
  reduced->first_forward = first;
  reduced->seconds = seconds;
  Quad& quad = quads_[block / 2];
  (id == ArmId::off ? quad.off_s : quad.on_s) += seconds;
  const double tokens = static_cast<double>(options_.tokens_per_rank) * root_.num_ranks() *
                        static_cast<double>(options_.block_forwards);
  block_tokens_per_s_[static_cast<std::size_t>(id)].push_back(tokens / seconds);
  report_.imbalance_mean[static_cast<std::size_t>(id)] +=
      reduced->imbalance / (2.0 * static_cast<double>(options_.num_quads));
  if (observer_ != nullptr) observer_->on_block(*reduced);
  report_.blocks.push_back(*reduced);
  return {};
}

void RankService::load_block(std::uint64_t first_forward) {
  for (std::uint64_t i = 0; i < options_.block_forwards; ++i) {
    fill_tokens(options_.model, Forward{first_forward + i}, rank(), 0, states(i));
  }
}

/// From a barrier before the first forward to a barrier after the arm's last work: the slowest rank counts.
Status RankService::time_block(ArmId id, std::uint64_t first_forward, double& seconds) {
  if (Status met = barrier(root_, clock_, collective()); !met) return met;
  const Clock::time_point begun = clock_.now();
  for (std::uint64_t i = 0; i < options_.block_forwards; ++i) {
    if (Status served = arm(id).serve(first_forward + i, states(i)); !served) return served;
    if (observer_ != nullptr) {
      observer_->on_forward(id, report_.blocks.size() * options_.block_forwards + i + 1,
                            2 * options_.forwards());
    }
  }
  if (Status settled = arm(id).settle(); !settled) return settled;
  if (Status met = barrier(root_, clock_, collective()); !met) return met;
  seconds = std::chrono::duration<double>(clock_.now() - begun).count();
  return {};
}

void RankService::keep_outputs(ArmId id, std::uint64_t first_forward) {
  for (std::uint64_t i = 0; i < options_.block_forwards; ++i) {
    const std::uint64_t forward = first_forward + i;
    output_hashes_[static_cast<std::size_t>(id)][forward] = checksum_of(std::as_bytes(states(i)));
    if (id == ArmId::off && is_reference_forward(forward)) {
      reference_outputs_[forward].assign(states(i).begin(), states(i).end());
    }
  }
}

/// Sums and gathers one block over the ranks; adds this rank's part to the totals.
Result<BlockReport> RankService::reduce_block(ArmId id, const ArmBlock& mine) {
  BlockReport block;
  block.arm = id;
  block.num_forwards = options_.block_forwards;
  block.epoch = arm(id).epoch();
  Result<std::vector<std::int64_t>> rows = gather(mine.rows);
  if (!rows) return failure(std::move(rows));
  block.imbalance = 0.0;
  for (std::size_t i = 0; i < mine.rows.size(); ++i) {
    std::vector<double> by_rank;
    for (std::size_t r = i; r < rows->size(); r += mine.rows.size())
      by_rank.push_back(static_cast<double>((*rows)[r]));
    block.imbalance +=
        compute_imbalance(by_rank, options_.topology).max_over_mean() / static_cast<double>(mine.rows.size());
  }
  std::array<std::int64_t, 2> moved{mine.slots_moved, mine.bytes_moved};
  if (Status summed = sum(moved); !summed) return failure(std::move(summed));
  block.slots_moved = moved[0];
  block.bytes_moved = moved[1];
  const std::array<std::int64_t, 1> stall{mine.stall.count()};
  Result<std::vector<std::int64_t>> stalls = gather(stall);
  if (!stalls) return failure(std::move(stalls));
  block.stall_ms = to_ms(Clock::duration(*std::ranges::max_element(*stalls)));
  if (id == ArmId::on) total_.add(mine);
  return block;
}

Status RankService::sum(std::span<std::int64_t> values) {
  return all_reduce_sum(root_, clock_, collective(), values);
}

Result<std::vector<std::int64_t>> RankService::gather(std::span<const std::int64_t> mine) {
  std::vector<std::int64_t> all(mine.size() * static_cast<std::size_t>(root_.num_ranks()));
  Status gathered =
      all_gather(root_, clock_, collective(), std::as_bytes(mine), std::as_writable_bytes(std::span(all)));
  if (!gathered) return failure(std::move(gathered));
  return all;
}

/// Spread evenly over the run, each rank beginning elsewhere.
bool RankService::is_reference_forward(std::uint64_t forward) const {
  const std::uint64_t every = std::max<std::uint64_t>(
      1, options_.forwards() / std::max<std::uint64_t>(1, options_.reference_batches));
  return options_.reference_batches > 0 &&
         (forward + static_cast<std::uint64_t>(rank().value())) % every == every - 1;
}

bool RankService::check_reference() {
  bool identical = true;
  std::vector<float> bias(options_.model.layers() * options_.model.experts());
  for (const auto& [forward, output] : reference_outputs_) {
    std::vector<float> states(states_per_forward_);
    fill_tokens(options_.model, Forward{forward}, rank(), 0, states);
    options_.schedule.bias_at(Forward{forward}, bias);
    run_reference(options_.model, bias, states);
    identical =
        identical && std::ranges::equal(std::as_bytes(std::span(states)), std::as_bytes(std::span(output)));
  }
  return identical;
}

Status RankService::finish() {
  const bool identical = check_reference() && output_hashes_[0] == output_hashes_[1];
  std::array<std::int64_t, 8> sums{identical ? 0 : 1,
                                   static_cast<std::int64_t>(reference_outputs_.size()),
                                   total_.slots_moved,
                                   total_.bytes_moved,
                                   total_.bytes_copied,
                                   total_.rows_on_moved_slots,
                                   total_.unchanged_slots_written,
                                   total_.windows_refused};
  if (Status summed = sum(sums); !summed) return summed;
  report_.outputs_identical = sums[0] == 0;
  report_.reference_checked = sums[1];
  report_.slots_moved = sums[2];
  report_.bytes_moved = sums[3];
  report_.bytes_copied = sums[4];
  report_.rows_on_moved_slots = sums[5];
  report_.unchanged_slots_written = sums[6];
  report_.windows_refused = sums[7] / root_.num_ranks();  // A refused window is refused on every rank.
  report_.epochs = total_.epochs;
  report_.rolled_back = total_.rolled_back;
  report_.splits = total_.splits;
  report_.migrations = total_.programs - total_.rolled_back;
  report_.last_problem = arm(ArmId::on).last_problem();
  report_.speedup = compute_speedup(quads_);
  for (std::size_t a = 0; a < 2; ++a) {
    const std::vector<double>& rates = block_tokens_per_s_[a];
    double seconds = 0.0;
    for (const BlockReport& block : report_.blocks)
      seconds += static_cast<std::size_t>(block.arm) == a ? block.seconds : 0.0;
    const auto n = static_cast<double>(rates.size());
    const double mean = std::accumulate(rates.begin(), rates.end(), 0.0) / n;
    double squares = 0.0;
    for (double rate : rates) squares += (rate - mean) * (rate - mean);
    report_.tokens_per_s[a] = static_cast<double>(options_.tokens_per_rank) * root_.num_ranks() *
                              static_cast<double>(options_.forwards()) / seconds;
    report_.tokens_per_s_deviation[a] = std::sqrt(squares / (n - 1.0));
  }
  report_.migration = arm(ArmId::on).migration();
  if (Status reduced = reduce(report_.migration, root_, clock_, collective()); !reduced) return reduced;
  if (Status summed = finish_traffic(); !summed) return summed;
  return finish_times();
}

Status RankService::finish_traffic() {
  const ServiceTraffic off = arm(ArmId::off).traffic();
  const ServiceTraffic on = arm(ArmId::on).traffic();
  std::array<std::int64_t, 4> sums{off.forward.within_nodes + on.forward.within_nodes,
                                   off.forward.between_nodes + on.forward.between_nodes,
                                   on.migration.within_nodes, on.migration.between_nodes};
  if (Status summed = sum(sums); !summed) return summed;
  report_.traffic = {.forward = {sums[0], sums[1]}, .migration = {sums[2], sums[3]}};
  return {};
}

Status RankService::finish_times() {
  const std::array<std::int64_t, 5> mine{total_.record.count(), total_.split.count(), total_.plan.count(),
                                         total_.migrate.count(), total_.stall.count()};
  Result<std::vector<std::int64_t>> all = gather(mine);
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
