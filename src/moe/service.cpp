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

/// One rank's run: serves the blocks in ABBA order and adds up what both arms did.
class RankService {
 public:
  RankService(const ServiceOptions& options, Transport& root, const Clock& clock, ServiceObserver* observer)
      : options_(options),
        clock_(clock),
        observer_(root.rank() == Rank{0} ? observer : nullptr),
        root_(root),
        replicated_(options.model),
        states_(options.block_forwards) {
    for (Rank rank : ids<Rank>(root.num_ranks())) members_.push_back(rank);
  }

  Result<ServiceReport> run();

 private:
  /// Tokens that this rank serves.
  struct Share {
    Rank rank;  ///< That brought them; this one's own come first.
    std::size_t first = 0;
    std::size_t count = 0;
  };

  Status serve_block(ArmId id, std::uint64_t block);
  [[nodiscard]] std::vector<Share> shares() const;
  void load(std::uint64_t first_forward, std::uint64_t from);
  Status serve_forwards(ArmId id, std::uint64_t first_forward);
  void change_members(std::uint64_t repeated_forward);
  Status time_block(ArmId id, std::uint64_t first_forward, double& seconds);
  void keep_outputs(ArmId id, std::uint64_t first_forward);
  void keep_for_reference(std::uint64_t forward, std::span<const float> output);
  Result<BlockReport> reduce_block(ArmId id, const ArmBlock& mine);
  Status sum(std::span<std::int64_t> values);
  Result<std::vector<std::int64_t>> gather(std::span<const std::int64_t> mine);
  [[nodiscard]] bool is_reference_forward(std::uint64_t forward) const;
  [[nodiscard]] bool check_reference();
  Status finish();
  void finish_rates();
  Status finish_death();
  Status finish_traffic();
  Status finish_times();

  [[nodiscard]] Rank rank() const { return root_.rank(); }
  [[nodiscard]] Arm& arm(ArmId id) { return *arms_[static_cast<std::size_t>(id)]; }
  [[nodiscard]] std::size_t own_tokens() const { return static_cast<std::size_t>(options_.tokens_per_rank); }
  [[nodiscard]] bool has_lost_rank() const {
    return members_.size() < static_cast<std::size_t>(root_.num_ranks());
  }
  /// What a view left half done never meets what the next one says.
  [[nodiscard]] CollectiveOptions collective() const {
    return {Tag{measure_tag.value() + view_}, options_.deadline, members_};
  }

  const ServiceOptions& options_;
  const Clock& clock_;
  ServiceObserver* observer_;
  Transport& root_;
  ReplicatedWeights replicated_;
  std::array<std::unique_ptr<Arm>, 2> arms_;

  std::vector<Rank> members_;  ///< That are left.
  std::uint32_t view_ = 0;
  std::vector<std::vector<float>>
      states_;  ///< By forward of a block, of all `shares`: inputs become outputs.
  std::array<std::map<std::uint64_t, std::uint64_t>, 2> output_hashes_;  ///< By arm and forward.
  /// Of sampled forwards, the off arm's as long as it serves, in the order of `reference_shares_`.
  std::map<std::uint64_t, std::vector<float>> reference_outputs_;
  std::map<std::uint64_t, std::vector<Share>> reference_shares_;
  std::optional<std::uint64_t> repeated_;  ///< First forward of the stream that was served again.
  std::int64_t tokens_taken_over_ = 0;

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
      if (id == ArmId::off && has_lost_rank()) continue;
      if (Status served = serve_block(id, 2 * quad + half); !served) return failure(std::move(served));
    }
  }
  if (Status finished = finish(); !finished) return failure(std::move(finished));
  return std::move(report_);
}

Status RankService::serve_block(ArmId id, std::uint64_t block) {
  const std::uint64_t first = block * options_.block_forwards;
  load(first, 0);
  arm(id).begin_block();
  double seconds = 0.0;
  if (Status timed = time_block(id, first, seconds); !timed) return timed;
  const ArmBlock mine = arm(id).take_block();
  keep_outputs(id, first);
  Result<BlockReport> reduced = reduce_block(id, mine);
  if (!reduced) return failure(std::move(reduced));
  reduced->first_forward = first;
  reduced->seconds = seconds;
  // What is served without a rank is no measure of balancing.
  if (has_lost_rank()) {
    quads_.resize(std::min<std::size_t>(quads_.size(), block / 2));
  } else {
    quads_.resize(std::max<std::size_t>(quads_.size(), block / 2 + 1));
    (id == ArmId::off ? quads_.back().off_s : quads_.back().on_s) += seconds;
  }
  const double tokens = static_cast<double>(options_.tokens_per_rank) * root_.num_ranks() *
                        static_cast<double>(options_.block_forwards);
  block_tokens_per_s_[static_cast<std::size_t>(id)].push_back(tokens / seconds);
  if (observer_ != nullptr) observer_->on_block(*reduced);
  report_.blocks.push_back(*reduced);
  return {};
}

/// This rank's tokens, and its part of those of ranks that are gone.
std::vector<RankService::Share> RankService::shares() const {
  std::vector<Share> shares{{rank(), 0, own_tokens()}};
  const auto index = static_cast<std::size_t>(std::ranges::find(members_, rank()) - members_.begin());
  for (Rank other : ids<Rank>(root_.num_ranks())) {
    if (std::ranges::find(members_, other) != members_.end()) continue;
    const std::size_t first = own_tokens() * index / members_.size();
    const std::size_t last = own_tokens() * (index + 1) / members_.size();
    shares.push_back({other, first, last - first});
  }
  return shares;
}

void RankService::load(std::uint64_t first_forward, std::uint64_t from) {
  const std::vector<Share> mine = shares();
  const std::size_t width = options_.model.width();
  std::size_t tokens = 0;
  for (const Share& share : mine) tokens += share.count;
  for (std::uint64_t i = from; i < options_.block_forwards; ++i) {
    states_[i].resize(tokens * width);
    std::span<float> rest = states_[i];
    for (const Share& share : mine) {
      fill_tokens(options_.model, Forward{first_forward + i}, share.rank, share.first,
                  rest.first(share.count * width));
      rest = rest.subspan(share.count * width);
    }
  }
}

/// When a rank is lost, the block goes on from the first forward that not all others have finished.
Status RankService::serve_forwards(ArmId id, std::uint64_t first_forward) {
  for (std::uint64_t i = 0;;) {
    const bool is_over = i == options_.block_forwards;
    const Result<bool> served = is_over ? arm(id).settle() : arm(id).serve(first_forward + i, states_[i]);
    if (!served) return tl::unexpected(served.error());
    if (*served && is_over) return {};
    if (*served) {
      ++i;
      if (observer_ != nullptr) {
        observer_->on_forward(id, report_.blocks.size() * options_.block_forwards + i,
                              2 * options_.forwards());
      }
      continue;
    }
    i = std::min(arm(id).resume(), options_.block_forwards);
    change_members(first_forward + i);
    load(first_forward, i);
  }
}

void RankService::change_members(std::uint64_t repeated_forward) {
  const View& view = arm(ArmId::on).view();
  members_ = view.members;
  view_ = view.number;
  if (!repeated_) repeated_ = repeated_forward;
}

/// From a barrier before the first forward to a barrier after the arm's last work: the slowest rank counts.
Status RankService::time_block(ArmId id, std::uint64_t first_forward, double& seconds) {
  if (Status met = barrier(root_, clock_, collective()); !met) return met;
  const Clock::time_point begun = clock_.now();
  if (Status served = serve_forwards(id, first_forward); !served) return served;
  if (Status met = barrier(root_, clock_, collective()); !met) return met;
  seconds = std::chrono::duration<double>(clock_.now() - begun).count();
  return {};
}

void RankService::keep_outputs(ArmId id, std::uint64_t first_forward) {
  const std::size_t own = own_tokens() * options_.model.width();
  for (std::uint64_t i = 0; i < options_.block_forwards; ++i) {
    const std::uint64_t forward = first_forward + i;
    const std::span<const float> output = states_[i];
    output_hashes_[static_cast<std::size_t>(id)][forward] = checksum_of(std::as_bytes(output.first(own)));
    const bool has_taken_over = output.size() > own;
    if (has_taken_over)
      tokens_taken_over_ += static_cast<std::int64_t>((output.size() - own) / options_.model.width());
    const bool is_sampled = is_reference_forward(forward) || (has_taken_over && forward == repeated_);
    if (is_sampled && (id == ArmId::off || has_taken_over)) keep_for_reference(forward, output);
  }
}

/// Of a block that a rank died in, forwards before its death have outputs of its tokens no more.
void RankService::keep_for_reference(std::uint64_t forward, std::span<const float> output) {
  std::vector<Share> mine = shares();
  if (output.size() == own_tokens() * options_.model.width()) mine.resize(1);
  reference_outputs_[forward].assign(output.begin(), output.end());
  reference_shares_[forward] = std::move(mine);
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
    std::vector<double> by_rank(static_cast<std::size_t>(root_.num_ranks()));
    for (std::size_t m = 0; m < members_.size(); ++m)
      by_rank[members_[m].index()] = static_cast<double>((*rows)[m * mine.rows.size() + i]);
    block.imbalance += compute_imbalance(by_rank, arm(id).topology()).max_over_mean() /
                       static_cast<double>(mine.rows.size());
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
  std::vector<std::int64_t> all(mine.size() * num_members(root_, collective()));
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
  const std::size_t width = options_.model.width();
  std::vector<float> bias(options_.model.layers() * options_.model.experts());
  for (const auto& [forward, output] : reference_outputs_) {
    options_.schedule.bias_at(Forward{forward}, bias);
    std::span<const float> rest = output;
    for (const Share& share : reference_shares_[forward]) {
      std::vector<float> states(share.count * width);
      fill_tokens(options_.model, Forward{forward}, share.rank, share.first, states);
      run_reference(options_.model, bias, states);
      const auto served = rest.first(states.size());
      identical = identical && std::ranges::equal(std::as_bytes(std::span(states)), std::as_bytes(served));
      rest = rest.subspan(states.size());
    }
  }
  return identical;
}

Status RankService::finish() {
  bool identical = check_reference();
  for (const auto& [forward, hash] : output_hashes_[0])
    identical = identical && output_hashes_[1].at(forward) == hash;
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
  report_.windows_refused =
      sums[7] / static_cast<std::int64_t>(members_.size());  // A refused window is refused on every rank.
  report_.epochs = total_.epochs;
  report_.rolled_back = total_.rolled_back;
  report_.splits = total_.splits;
  report_.migrations = total_.programs - total_.rolled_back;
  report_.last_problem = arm(ArmId::on).last_problem();
  report_.speedup = compute_speedup(quads_);
  finish_rates();
  report_.migration = arm(ArmId::on).migration();
  if (Status reduced = reduce(report_.migration, root_, clock_, collective()); !reduced) return reduced;
  if (Status finished = finish_death(); !finished) return finished;
  if (Status summed = finish_traffic(); !summed) return summed;
  return finish_times();
}

void RankService::finish_rates() {
  for (std::size_t a = 0; a < 2; ++a) {
    const std::vector<double>& rates = block_tokens_per_s_[a];
    double seconds = 0.0;
    double imbalance = 0.0;
    for (const BlockReport& block : report_.blocks) {
      if (static_cast<std::size_t>(block.arm) != a) continue;
      seconds += block.seconds;
      imbalance += block.imbalance;
    }
    const auto n = static_cast<double>(rates.size());
    const double mean = std::accumulate(rates.begin(), rates.end(), 0.0) / n;
    double squares = 0.0;
    for (double rate : rates) squares += (rate - mean) * (rate - mean);
    report_.imbalance_mean[a] = imbalance / n;
    report_.tokens_per_s[a] = static_cast<double>(options_.tokens_per_rank) * root_.num_ranks() *
                              static_cast<double>(options_.block_forwards) * n / seconds;
    report_.tokens_per_s_deviation[a] = n > 1.0 ? std::sqrt(squares / (n - 1.0)) : 0.0;
  }
}

Status RankService::finish_death() {
  report_.death = arm(ArmId::on).death();
  if (!report_.death) return {};
  std::array<std::int64_t, 2> sums{report_.death->bytes_recovered, tokens_taken_over_};
  if (Status summed = sum(sums); !summed) return summed;
  const auto us = static_cast<std::int64_t>(report_.death->recovery_ms * 1000.0);
  const Result<std::vector<std::int64_t>> all = gather({&us, 1});
  if (!all) return tl::unexpected(all.error());
  report_.death->bytes_recovered = sums[0];
  report_.death->tokens_taken_over = sums[1];
  report_.death->recovery_ms = static_cast<double>(*std::ranges::max_element(*all)) / 1000.0;
  report_.death->forward = *repeated_;
  return {};
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
