// SPDX-License-Identifier: Apache-2.0
#include "moe/executor.hpp"

#include <fmt/format.h>

namespace trimtab::moe {
namespace {

/// Adds the time from here to the end of the scope.
class TimeInto {
 public:
  TimeInto(Clock::duration& total, const Clock& clock) noexcept
      : total_(total), clock_(clock), start_(clock.now()) {}
  ~TimeInto() { total_ += clock_.now() - start_; }
  TimeInto(const TimeInto&) = delete;
  TimeInto& operator=(const TimeInto&) = delete;

 private:
  Clock::duration& total_;
  const Clock& clock_;
  Clock::time_point start_;
};

}  // namespace

Status check_parts(const ExecutorOptions& options, const ExecutorParts& parts) {
  if (Status s = check_config(options.config); !s) return s;
  if (parts.channel.num_ranks() != parts.topology.num_ranks()) {
    return failure(Errc::invalid_argument,
                   fmt::format("a channel of {} ranks for a topology of {}", parts.channel.num_ranks(),
                               parts.topology.num_ranks()));
  }
  const IdRange<SlotId> slots = parts.topology.slots_of(parts.channel.rank());
  const IdRange<SlotId> held = parts.memory.slots();
  if (held.first() == slots.first() && held.size() == slots.size()) return {};
  return failure(
      Errc::invalid_argument,
      fmt::format("rank {}: memory of {} slots from {} for {} slots from {}", parts.channel.rank().value(),
                  held.size(), held.first().value(), slots.size(), slots.first().value()));
}

Result<std::unique_ptr<RankExecutor>> RankExecutor::make(const ExecutorOptions& options,
                                                         const ExecutorParts& parts) {
  if (Status s = check_parts(options, parts); !s) return failure(std::move(s));
  return std::unique_ptr<RankExecutor>(new RankExecutor(options, parts));
}

RankExecutor::RankExecutor(const ExecutorOptions& options, const ExecutorParts& parts)
    : options_(options),
      parts_(parts),
      router_(options.config.num_layers, options.config.num_experts, parts.channel.rank()),
      gate_(options.config, parts.weights, options.max_tokens),
      outbox_(options.config, parts.topology, options.max_tokens),
      inbox_(options.config, parts.topology, parts.channel.rank(), options.max_tokens),
      all_to_all_(parts.channel, parts.topology, parts.clock, options.deadline, parts.while_waiting,
                  [this](Rank peer) {
                    if (parts_.on_unheard) parts_.on_unheard(number_, peer);
                  }),
      experts_(options.config, parts.memory),
      slots_(options.max_tokens * options.config.choices()),
      rows_(options.config.layers() * parts.memory.slots().size()) {}

Status RankExecutor::forward(Forward number, std::span<float> states, std::span<const float> bias,
                             const RoutingTable& table) {
  if (Status s = check_input(options_, states, bias, table); !s) return s;
  const TimeInto timed(times_.forward, parts_.clock);
  number_ = number;
  return end_forward(run_layers(number, states, bias, table), options_, parts_, all_to_all_);
}

Status end_forward(Status done, const ExecutorOptions& options, const ExecutorParts& parts,
                   AllToAll& all_to_all) {
  if (!done && options.survives_deaths) {
    all_to_all.give_up();
  } else if (!done) {
    // Peers of this forward wait for messages that will not come; a closed channel is what they can notice.
    parts.channel.close();
    parts.channel.join();
  }
  if (parts.recorder == nullptr) return done;
  if (done) {
    parts.recorder->commit_forward();
  } else {
    parts.recorder->abandon_forward();
  }
  return done;
}

void RankExecutor::enter_view(std::uint32_t number) noexcept {
  rows_tag_ = Tag{rows_tag.value() + 2 * number};
  answers_tag_ = Tag{answers_tag.value() + 2 * number};
}

Status check_input(const ExecutorOptions& options, std::span<const float> states, std::span<const float> bias,
                   const RoutingTable& table) {
  const ModelConfig& config = options.config;
  if (states.size() % config.width() != 0 || states.size() / config.width() > options.max_tokens) {
    return failure(Errc::invalid_argument, fmt::format("{} state values are not up to {} tokens of {}",
                                                       states.size(), options.max_tokens, config.hidden));
  }
  if (bias.size() != config.layers() * config.experts()) {
    return failure(Errc::invalid_argument, fmt::format("{} biases for {} layers x {} experts", bias.size(),
                                                       config.num_layers, config.num_experts));
  }
  if (table.num_layers() == config.num_layers && table.num_experts() == config.num_experts) return {};
  return failure(Errc::invalid_argument,
                 fmt::format("a table of {} layers x {} experts for a model of {} x {}", table.num_layers(),
                             table.num_experts(), config.num_layers, config.num_experts));
}

Status RankExecutor::run_layers(Forward number, std::span<float> states, std::span<const float> bias,
                                const RoutingTable& table) {
  const std::size_t experts = options_.config.experts();
  for (const LayerId layer : ids<LayerId>(options_.config.num_layers)) {
    const BatchKey key{table.identity(), number, layer};
    const auto layer_bias = bias.subspan(layer.index() * experts, experts);
    if (Status s = run_layer(key, states, layer_bias, table); !s) return s;
  }
  return {};
}

Status RankExecutor::run_layer(const BatchKey& key, std::span<float> states, std::span<const float> bias,
                               const RoutingTable& table) {
  AroundExperts* const around = parts_.around;
  if (around != nullptr) {
    if (Status s = around->before(key.layer, states); !s) return s;
  }
  gate_.run(key.layer, states, bias);
  const auto slots = std::span(slots_).first(gate_.experts().size());
  if (Status s = router_.dispatch(table, key.layer, gate_.experts(), slots); !s) return s;
  if (Status s = record(key, slots); !s) return s;
  if (Status s = exchange_and_compute(key, slots); !s) return s;
  if (around != nullptr) {
    if (Status s = around->beside(key.layer, gate_, states); !s) return s;
  }
  const std::size_t width = options_.config.width();
  for (std::size_t t = 0; t * width < states.size(); ++t) {
    combine_token(gate_.weights_of(t), outbox_.answers_of(t), states.subspan(t * width, width));
  }
  return {};
}

Status RankExecutor::exchange_and_compute(const BatchKey& key, std::span<const SlotId> slots) {
  outbox_.pack(key, slots, gate_.values(), gate_.scales());
  {
    const TimeInto timed(times_.exchange, parts_.clock);
    if (Status s = all_to_all_.run(rows_tag_, outbox_.messages(), inbox_.buffers()); !s) return s;
  }
  if (Status s = inbox_.open(key, outbox_); !s) return s;
  {
    const TimeInto timed(times_.experts, parts_.clock);
    const std::size_t local = parts_.memory.slots().size();
    const auto num_rows = std::span(rows_).subspan(key.layer.index() * local, local);
    if (Status s = experts_.run(key.layer, inbox_.rows(), num_rows); !s) return s;
  }
  const TimeInto timed(times_.exchange, parts_.clock);
  if (Status s = all_to_all_.run(answers_tag_, inbox_.answers(), outbox_.answers()); !s) return s;
  return outbox_.check_answers(key, parts_.channel.rank());
}

Status RankExecutor::record(const BatchKey& key, std::span<const SlotId> slots) {
  if (parts_.recorder == nullptr) return {};
  const TimeInto timed(times_.record, parts_.clock);
  const auto tokens = static_cast<std::int64_t>(slots.size() / options_.config.choices());
  return parts_.recorder->record(options_.context, key.table.epoch, key.layer, slots, tokens);
}

std::span<const std::int64_t> RankExecutor::rows(LayerId layer) const noexcept {
  const std::size_t local = parts_.memory.slots().size();
  return std::span(rows_).subspan(layer.index() * local, local);
}

}  // namespace trimtab::moe
