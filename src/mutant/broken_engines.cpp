// SPDX-License-Identifier: Apache-2.0
#include "migrate/step_engine.hpp"
#include "mutant/mutant.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace trimtab {
namespace {

/// Routes by the new table from F on, but lets two forwards pass before it exchanges the slots.
class TableBeforeWeights final : public StepEngine {
 public:
  using StepEngine::StepEngine;

 private:
  static constexpr std::uint64_t lead = 2;

  [[nodiscard]] Admission admit(Forward next) override {
    if (!is_draining() || next < commit_forward()) return StepEngine::admit(next);
    const bool is_early = next.value() < commit_forward().value() + lead;
    if (is_early) static_cast<void>(publish(*next_table()));
    return is_early ? Admission::go : Admission::hold;
  }
  [[nodiscard]] bool is_drained(Forward next) const override {
    return next.value() >= commit_forward().value() + lead && StepEngine::is_drained(next);
  }
  Status publish(RoutingTable table) override {
    const bool is_published = publisher().identity().epoch == table.identity().epoch;
    return is_published ? Status{} : StepEngine::publish(std::move(table));
  }
};

/// Writes slots as bundles arrive, and puts that right at the commit.
class EarlyRun final : public StageRun {
 public:
  using StageRun::StageRun;

  void exchange() noexcept override {
    for (const Early& early : early_) swap(early);
    StageRun::exchange();
  }

 private:
  struct Early {
    Move move;
    std::span<std::byte> staged;
  };

  void on_verified(const Move& move, std::span<std::byte> staged) override {
    if (context().store.needs_workspace(move.layer)) return;
    early_.push_back({move, staged});
    swap(early_.back());
  }
  void swap(const Early& early) noexcept {
    context().store.exchange_bundle(early.move.layer, early.move.destination, early.staged);
  }

  std::vector<Early> early_;
};

class OverwriteBeforeSend final : public StepEngine {
 public:
  using StepEngine::StepEngine;

 private:
  std::unique_ptr<StageRun> make_run(const StageRun::Context& context,
                                     std::span<std::byte> staging) override {
    return std::make_unique<EarlyRun>(context, step(), staging);
  }
};

class SkippedWait final : public StepEngine {
 public:
  using StepEngine::StepEngine;

 private:
  [[nodiscard]] bool is_drained(Forward next) const override { return next >= commit_forward(); }
};

/// Puts the first bundle also into a slot beside it.
class NeighbourRun final : public StageRun {
 public:
  NeighbourRun(const Context& context, const Step& step, std::span<std::byte> staging)
      : StageRun(context, step, staging), step_(step) {}

  void exchange() noexcept override {
    StageRun::exchange();
    ExpertStore& store = context().store;
    const auto mine = std::ranges::find_if(
        step_.moves, [&](const Move& move) { return store.slots().contains(move.destination); });
    if (mine == step_.moves.end()) return;
    for (SlotId slot : store.slots()) {
      if (!is_named(mine->layer, slot)) return rewrite(mine->layer, mine->destination, slot);
    }
  }

 private:
  [[nodiscard]] bool is_named(LayerId layer, SlotId slot) const noexcept {
    const auto names = [&](const Move& move) { return move.layer == layer && move.destination == slot; };
    const auto vacates = [&](const Vacation& v) { return v.layer == layer && v.slot == slot; };
    return std::ranges::any_of(step_.moves, names) || std::ranges::any_of(step_.vacations, vacates);
  }
  void rewrite(LayerId layer, SlotId from, SlotId to) noexcept {
    ExpertStore& store = context().store;
    std::vector<std::byte> bundle(store.bundle_bytes(layer));
    store.begin_layer(layer);
    store.read_bundle(layer, from, bundle);
    store.exchange_bundle(layer, to, bundle);
    store.end_layer(layer);
  }

  const Step& step_;
};

class NeighbourRewritten final : public StepEngine {
 public:
  using StepEngine::StepEngine;

 private:
  std::unique_ptr<StageRun> make_run(const StageRun::Context& context,
                                     std::span<std::byte> staging) override {
    return std::make_unique<NeighbourRun>(context, step(), staging);
  }
};

class VoteIgnored final : public StepEngine {
 public:
  using StepEngine::StepEngine;

 private:
  Status on_message(const Message& message) override {
    Message heard = message;
    if (heard.kind == MessageKind::vote) heard.yes = 1;
    return StepEngine::on_message(heard);
  }
};

/// Remembers what was rolled back, and runs that instead of what is begun next, once epochs have moved on.
class StaleProgramResumed final : public StepEngine {
 public:
  using StepEngine::StepEngine;

  Status begin(Program program, std::shared_ptr<const TableCompiler> tables) override {
    const bool resumes = suspended_ && suspended_->epoch < epoch();
    current_ = resumes ? *std::exchange(suspended_, std::nullopt) : std::move(program);
    current_->epoch = epoch();
    return StepEngine::begin(*current_, std::move(tables));
  }

 private:
  void roll_back(Error why, StepEvent event) override {
    suspended_ = current_;
    StepEngine::roll_back(std::move(why), event);
  }

  std::optional<Program> current_;
  std::optional<Program> suspended_;
};

}  // namespace

Result<std::unique_ptr<Engine>> make_engine(std::optional<Mutant> mutant, const EngineOptions& options,
                                            std::unique_ptr<Transport> channel, ExpertStore& store,
                                            TablePublisher& publisher, Topology topology, Placement placement,
                                            const Clock& clock) {
  const auto make = [&](auto kind) {
    using Kind = typename decltype(kind)::type;
    return make_step_engine<Kind>(options, std::move(channel), store, publisher, std::move(topology),
                                  std::move(placement), clock);
  };
  if (!mutant) return make(std::type_identity<StepEngine>{});
  switch (*mutant) {
    case Mutant::table_before_weights:
      return make(std::type_identity<TableBeforeWeights>{});
    case Mutant::overwrite_before_send:
      return make(std::type_identity<OverwriteBeforeSend>{});
    case Mutant::skipped_wait:
      return make(std::type_identity<SkippedWait>{});
    case Mutant::neighbour_rewritten:
      return make(std::type_identity<NeighbourRewritten>{});
    case Mutant::vote_ignored:
      return make(std::type_identity<VoteIgnored>{});
    case Mutant::stale_program_resumed:
      return make(std::type_identity<StaleProgramResumed>{});
    case Mutant::wrong_scale:
    case Mutant::stale_map:
    case Mutant::new_storage:
      break;
  }
  return make(std::type_identity<StepEngine>{});
}

}  // namespace trimtab
