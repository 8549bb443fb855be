// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "moe/gate.hpp"
#include "moe/migration_report.hpp"
#include "moe/service.hpp"
#include "moe/traffic.hpp"

#include <trimtab/core/clock.hpp>
#include <trimtab/core/result.hpp>
#include <trimtab/migrate/engine.hpp>
#include <trimtab/transport/transport.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace trimtab::moe {

[[nodiscard]] inline double to_ms(Clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

/// What one arm did on this rank since the last `take_block`.
struct ArmBlock {
  std::vector<std::int64_t> rows;  ///< [forwards][layers]: assignments computed on this rank.
  std::int64_t rows_on_moved_slots = 0;
  std::int64_t unchanged_slots_written = 0;
  std::int64_t slots_moved = 0;
  std::int64_t bytes_moved = 0;
  std::int64_t bytes_copied = 0;
  std::int64_t epochs = 0;
  std::int64_t programs = 0;  ///< Begun.
  std::int64_t rolled_back = 0;
  std::int64_t windows_refused = 0;
  std::int64_t splits = 0;  ///< Changes of shares alone.
  Clock::duration record{};
  Clock::duration split{};
  Clock::duration plan{};
  Clock::duration migrate{};
  Clock::duration stall{};

  /// Adds another block of the same arm; `rows` stay as they are.
  void add(const ArmBlock& block);
};

/// One arm of the service on one rank, with weights, table and channels of its own. With balancing it also
/// has recorder, engine and balancer; nothing else differs. One thread.
class Arm {
 public:
  /// Collective over `root`. Borrows everything given for the arm's lifetime.
  /// @param watch  called while a forward waits, and ends it by an error; the on arm has its own
  /// @param around  null for generated tokens
  static Result<std::unique_ptr<Arm>> make(ArmId id, const ServiceOptions& options,
                                           const ReplicatedWeights& replicated, Transport& root,
                                           const Clock& clock, std::function<Status()> watch,
                                           AroundExperts* around = nullptr);
  virtual ~Arm() = default;

  /// Before a block's time begins.
  virtual void begin_block() = 0;
  /// Serves one forward: `states` [tokens][hidden] becomes its output. `stream` numbers the tokens and sets
  /// the gate's bias.
  /// @return false when other ranks are left than before: `states` is unspecified, and the block goes on with
  ///         the forward `resume()`, and with the tokens of those that are gone.
  virtual Result<bool> serve(std::uint64_t stream, std::span<float> states) = 0;
  /// Finishes the work that the arm's forwards began: part of the block's time. False as above.
  virtual Result<bool> settle() = 0;
  /// Forward of the block, from 0.
  [[nodiscard]] virtual std::uint64_t resume() const = 0;
  /// To be called while other things wait than the arm's own. @return `cancelled` when ranks are gone, or
  /// this one can not go on.
  virtual Status watch() = 0;
  /// After an error that another rank's end may have caused: waits until other ranks are left than before.
  /// @return what had failed when that is not so.
  virtual Status await_view(const Status& failed) = 0;
  /// Has no more to do with a rank that is gone.
  virtual void drop(Rank rank) = 0;
  /// The ranks that serve; all of them in the off arm.
  [[nodiscard]] virtual const View& view() const = 0;
  [[nodiscard]] virtual const Topology& topology() const = 0;
  /// What the last change of view cost here, but for the tokens and the ranks; empty when there was none.
  [[nodiscard]] virtual const std::optional<DeathReport>& death() const = 0;
  /// After a block's time has ended.
  virtual ArmBlock take_block() = 0;

  [[nodiscard]] virtual std::uint64_t epoch() const = 0;
  /// Why the last step was rolled back or the last window was not planned from, as this rank knows it; empty
  /// if there was none.
  [[nodiscard]] virtual std::string last_problem() const = 0;
  /// Of this rank, since the start. Empty without balancing.
  [[nodiscard]] virtual MigrationReport migration() const = 0;
  /// Of this rank, since the start.
  [[nodiscard]] virtual ServiceTraffic traffic() const = 0;
};

}  // namespace trimtab::moe
