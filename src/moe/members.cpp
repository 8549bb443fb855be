// SPDX-License-Identifier: Apache-2.0
#include "moe/members.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trimtab::moe {
namespace {

constexpr Tag meeting_tag{1};

}  // namespace

Members::Members(const ServiceOptions& options, Transport& root, const Clock& clock, const Arms& arms)
    : options_(options), root_(root), clock_(clock), arms_(arms) {
  for (Rank rank : ids<Rank>(root.num_ranks())) ranks_.push_back(rank);
  if (options.survival) watch_ = [this] { return arms_[static_cast<std::size_t>(ArmId::on)]->watch(); };
}

bool Members::has_lost_rank() const noexcept {
  return ranks_.size() < static_cast<std::size_t>(root_.num_ranks());
}

/// What a view left half done never meets what the next one says.
CollectiveOptions Members::collective() const {
  CollectiveOptions options{Tag{meeting_tag.value() + view_}, options_.deadline, ranks_};
  if (watch_) options.while_waiting = &watch_;
  return options;
}

Members::Meeting Members::barrier_of_all() {
  return [this](const CollectiveOptions& options) { return barrier(root_, clock_, options); };
}

Status Members::meet(const Meeting& meeting) {
  for (;;) {
    const Status met = meeting(collective());
    if (met) break;
    if (Status survived = survive(met); !survived) return survived;
  }
  count(meeting);
  return {};
}

Result<bool> Members::meet_unless(const std::function<Result<bool>()>& goes_on) {
  const Meeting all = barrier_of_all();
  for (;;) {
    const Status met = all(collective());
    if (met) break;
    if (Status survived = survive(met); !survived) return failure(std::move(survived));
    Result<bool> is_wanted = goes_on();
    if (!is_wanted || !*is_wanted) return is_wanted;
  }
  count(all);
  return true;
}

void Members::count(const Meeting& meeting) {
  ++num_meetings_;
  last_meeting_ = meeting;
}

Status Members::sum(std::span<std::int64_t> values) {
  const auto summed = std::make_shared<std::vector<std::int64_t>>();
  const std::vector<std::int64_t> mine(values.begin(), values.end());
  Status met = meet([this, summed, mine](const CollectiveOptions& options) {
    *summed = mine;
    return all_reduce_sum(root_, clock_, options, *summed);
  });
  if (met) std::ranges::copy(*summed, values.begin());
  return met;
}

Result<std::vector<std::int64_t>> Members::gather(std::span<const std::int64_t> mine) {
  const auto all = std::make_shared<std::vector<std::int64_t>>();
  const std::vector<std::int64_t> own(mine.begin(), mine.end());
  Status met = meet([this, all, own](const CollectiveOptions& options) {
    all->assign(own.size() * num_members(root_, options), 0);
    return all_gather(root_, clock_, options, std::as_bytes(std::span(own)),
                      std::as_writable_bytes(std::span(*all)));
  });
  if (!met) return failure(std::move(met));
  return *all;
}

Status Members::survive(const Status& failed) {
  if (!options_.survival) return failed;
  if (Status survived = arms_[static_cast<std::size_t>(ArmId::on)]->await_view(failed); !survived)
    return survived;
  return enter_view();
}

Status Members::enter_view() {
  const View& view = arms_[static_cast<std::size_t>(ArmId::on)]->view();
  for (Rank rank : ranks_) {
    if (std::ranges::find(view.members, rank) != view.members.end()) continue;
    for (const auto& arm : arms_) arm->drop(rank);
    root_.drop_peer(rank);
  }
  ranks_ = view.members;
  view_ = view.number;
  const auto all = static_cast<std::size_t>(root_.num_ranks());
  if (2 * ranks_.size() < all) {
    return failure(Errc::infeasible,
                   fmt::format("{} of {} ranks are left, less than half", ranks_.size(), all));
  }
  const Status caught_up = catch_up();
  return caught_up ? caught_up : survive(caught_up);
}

/// One meeting may have ended for some ranks and not for others: those do it once more, with whom they left
/// behind. No rank can be further ahead, for each meeting waits for all.
Status Members::catch_up() {
  std::vector<std::int64_t> all(ranks_.size());
  Status gathered = all_gather(root_, clock_, collective(), std::as_bytes(std::span(&num_meetings_, 1)),
                               std::as_writable_bytes(std::span(all)));
  if (!gathered) return gathered;
  most_meetings_ = *std::ranges::max_element(all);
  const bool is_ahead = num_meetings_ > *std::ranges::min_element(all);
  return is_ahead ? last_meeting_(collective()) : Status{};
}

/// Who leaves looks dead to those that still look: nobody does before all are through, which all know after
/// one more barrier. Then nothing is at stake, whoever is missing.
void Members::part() {
  if (!options_.survival) return;
  const Meeting all = barrier_of_all();
  if (meet(all)) static_cast<void>(all(collective()));
}

}  // namespace trimtab::moe
