// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/core/result.hpp>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "moe/around_experts.hpp"
#include "moe/members.hpp"
#include "moe/service.hpp"
#include "moe/weight_source.hpp"

namespace trimtab::moe {

/// What went through an arm.
struct ServedTokens {
  std::int64_t tokens = 0;
  std::int64_t prompt_bytes = 0;  ///< Of these, what a real model had to say,
  double bits = 0.0;              ///< and what it needed for that.
};

/// What one rank serves in both arms: where the rows of a forward come from, and what their outputs are
/// compared with. One thread. Forwards are those of the stream; each is served by both arms.
class Workload {
 public:
  virtual ~Workload() = default;

  /// What an arm computes around its experts; null: nothing.
  [[nodiscard]] virtual AroundExperts* around(ArmId arm) noexcept = 0;

  /// The forwards from `begin` up to `end`, the end of a block, are about to be served by `members`. Said
  /// before a block, and again when ranks are lost in it.
  virtual void load(std::span<const Rank> members, std::uint64_t begin, std::uint64_t end) = 0;
  /// The rows of the next forward as states, [rows][hidden], to be served in place.
  [[nodiscard]] virtual std::span<float> begin(ArmId arm, std::uint64_t forward) = 0;
  /// It was served.
  virtual void finish(ArmId arm, std::uint64_t forward) = 0;
  /// So were all from `begin` up to `end`, and none of them will be served again. `repeated` is the first of
  /// the run that was, if any.
  virtual void end_block(ArmId arm, std::uint64_t begin, std::uint64_t end,
                         std::optional<std::uint64_t> repeated) = 0;
  /// Tells of the forward that an arm has served last.
  virtual void show(ArmId, ServiceObserver&) const {}
  /// What went through an arm since this was asked last.
  [[nodiscard]] virtual ServedTokens take(ArmId arm) noexcept = 0;

  /// Has the reference compute samples again.
  [[nodiscard]] virtual bool equals_reference() = 0;
  [[nodiscard]] virtual std::int64_t num_checked() const noexcept = 0;
  /// Whether both arms had the same outputs in every forward that the off arm has served.
  [[nodiscard]] bool arms_agree() const;

  /// Of ranks that are gone.
  [[nodiscard]] virtual std::int64_t tokens_taken_over() const noexcept = 0;
  /// Adds what only this kind of work has. All members call it.
  virtual Status report(Members&, ServiceReport&) { return {}; }

 protected:
  void note_output(ArmId arm, std::uint64_t forward, std::uint64_t checksum);

 private:
  std::array<std::map<std::uint64_t, std::uint64_t>, 2> checksums_;  ///< By arm and forward.
};

/// Where the weights of a service's experts come from. Shares the model with the options.
[[nodiscard]] std::shared_ptr<const WeightSource> weights_of(const ServiceOptions& options);

/// Borrows the options.
[[nodiscard]] std::unique_ptr<Workload> make_workload(const ServiceOptions& options, Rank rank);
std::unique_ptr<Workload> make_workload(ServiceOptions&&, Rank) = delete;

}  // namespace trimtab::moe
