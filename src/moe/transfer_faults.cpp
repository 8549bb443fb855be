// SPDX-License-Identifier: Apache-2.0
#include "moe/transfer_faults.hpp"

#include "migrate/control.hpp"
#include "migrate/send_order.hpp"

#include <algorithm>
#include <utility>

namespace trimtab::moe {
namespace {

/// Adds `fault` to every leg of a posting that comes next.
void add_to_all(std::span<const Leg> legs, Fault fault, FaultScript& script) {
  fault.match = {.side = Side::send, .peer = legs.front().peer, .tag = legs.front().tag};
  for (fault.occurrence = 0; fault.occurrence < legs.size(); ++fault.occurrence) script.add(fault);
}

void delay_all(std::span<const Leg> legs, Clock::time_point until, FaultScript& script) {
  Fault fault;
  fault.action = FaultAction::delay;
  fault.until = until;
  add_to_all(legs, fault, script);
}

/// The largest: never the checksum, unless a whole bundle is as small.
void corrupt_largest(std::span<const Leg> legs, FaultScript& script) {
  const auto largest = std::ranges::max_element(legs, {}, [](const Leg& leg) { return leg.memory.size(); });
  Fault fault;
  fault.match = {.side = Side::send, .peer = legs.front().peer, .tag = legs.front().tag};
  fault.action = FaultAction::corrupt;
  fault.occurrence = static_cast<std::uint64_t>(largest - legs.begin());
  script.add(fault);
}

}  // namespace

/// Sits above the faulty end, which does the damage, and tells it which posting is meant. The engine posts
/// nothing else but control messages, which have a tag of their own.
class TransferFaults::Channel final : public TransportDecorator {
 public:
  Channel(TransferFaults& faults, std::unique_ptr<Transport> inner, std::shared_ptr<FaultScript> script,
          const Clock& clock)
      : TransportDecorator(std::move(inner)), faults_(faults), script_(std::move(script)), clock_(clock) {}

  Result<Ticket> post(std::span<const Leg> legs) override {
    const bool is_payload =
        !legs.empty() && legs.front().side == Side::send && legs.front().tag != ControlChannel::tag;
    if (is_payload) faults_.on_piece(legs, clock_.now(), *script_);
    return inner().post(legs);
  }

 private:
  TransferFaults& faults_;
  std::shared_ptr<FaultScript> script_;
  const Clock& clock_;
};

TransferFaults::TransferFaults(std::vector<TransferFault> faults, Topology topology, Rank self,
                               std::vector<std::size_t> bundle_bytes)
    : faults_(std::move(faults)),
      struck_(faults_.size(), false),
      topology_(std::move(topology)),
      self_(self),
      bundle_bytes_(std::move(bundle_bytes)) {}

std::unique_ptr<Transport> TransferFaults::wrap(std::unique_ptr<Transport> channel, const Clock& clock) {
  if (faults_.empty()) return channel;
  auto script = std::make_shared<FaultScript>(std::vector<Fault>{});
  auto faulty = std::make_unique<FaultyTransport>(std::move(channel), script, &clock);
  return std::make_unique<Channel>(*this, std::move(faulty), std::move(script), clock);
}

/// A bundle and its checksum are sent in one posting or in several.
void TransferFaults::on_begin(const Step& step) {
  outgoing_.clear();
  num_posted_ = 0;
  blocked_.reset();
  for (const Move& move : step.moves) {
    if (!is_remote(move.kind)) continue;
    const std::uint64_t number = num_started_++;
    if (topology_.rank_of(move.source) != self_) continue;
    const std::size_t bytes = bundle_bytes_[move.layer.index()] + sizeof(std::uint64_t);
    outgoing_.push_back({.move = move, .fault = find(number), .bytes_left = bytes});
  }
  std::ranges::sort(outgoing_, is_sent_before, &Outgoing::move);
}

void TransferFaults::on_piece(std::span<const Leg> legs, Clock::time_point now, FaultScript& script) {
  if (num_posted_ == outgoing_.size()) return;
  Outgoing& transfer = outgoing_[num_posted_];
  if (transfer.fault) strike(transfer, legs, now, script);
  // What is sent behind a delayed transfer must not overtake it, even when the time has just come: messages
  // would meet wrong receives.
  if (blocked_ && blocked_->peer == legs.front().peer) delay_all(legs, blocked_->until, script);
  transfer.is_begun = true;
  for (const Leg& leg : legs) transfer.bytes_left -= std::min(transfer.bytes_left, leg.memory.size());
  if (transfer.bytes_left == 0) ++num_posted_;
}

/// All pieces are lost, the first one is damaged, or all wait from the first on.
void TransferFaults::strike(const Outgoing& transfer, std::span<const Leg> legs, Clock::time_point now,
                            FaultScript& script) {
  const TransferFault& fault = faults_[*transfer.fault];
  struck_[*transfer.fault] = true;
  if (fault.action == FaultAction::drop) return add_to_all(legs, Fault{}, script);
  if (transfer.is_begun) return;
  if (fault.action == FaultAction::corrupt) return corrupt_largest(legs, script);
  blocked_ = Blocked{legs.front().peer, now + fault.hold};
}

std::optional<std::size_t> TransferFaults::find(std::uint64_t number) const noexcept {
  const auto found = std::ranges::find(faults_, number, &TransferFault::at);
  if (found == faults_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - faults_.begin());
}

}  // namespace trimtab::moe
