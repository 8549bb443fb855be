// SPDX-License-Identifier: Apache-2.0
#include "nccl_like.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace nccl_like {
namespace {

[[noreturn]] void end_process(const char* misuse) {
  std::fprintf(stderr, "nccl_like: %s; a real library would hang or corrupt memory here\n", misuse);
  std::abort();
}

std::vector<Operation> of_side(const Group& group, bool is_send) {
  std::vector<Operation> found;
  for (const Operation& operation : group.operations) {
    if (operation.is_send == is_send) found.push_back(operation);
  }
  return found;
}

std::size_t index_of(int low, int high, int num_ranks) {
  return static_cast<std::size_t>(low) * static_cast<std::size_t>(num_ranks) + static_cast<std::size_t>(high);
}

}  // namespace

Link::Link() : fifo_(fifo_bytes), device_([this] { run_groups(); }) {}

Link::~Link() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  device_.join();
  const bool is_empty = streams_[0].empty() && streams_[1].empty();
  if (!is_empty) end_process("a communicator is destroyed while its groups wait");
}

Event Link::launch(std::size_t side, std::vector<Operation> operations) {
  if (operations.size() > Communicator::max_operations) end_process("too many operations in one group");
  Group group{std::move(operations), {}};
  Event event = group.event;
  {
    const std::lock_guard lock(mutex_);
    streams_[side].push_back(std::move(group));
  }
  changed_.notify_all();
  return event;
}

void Link::abort(std::size_t side) noexcept {
  std::unique_lock lock(mutex_);
  is_aborted_[side] = true;
  changed_.wait(lock, [this] { return !is_running_; });
  streams_[side].clear();
}

void Link::run_groups() {
  std::unique_lock lock(mutex_);
  const auto can_run = [this] {
    return !streams_[0].empty() && !streams_[1].empty() && !is_aborted_[0] && !is_aborted_[1];
  };
  for (;;) {
    changed_.wait(lock, [&] { return is_over_ || can_run(); });
    if (is_over_) return;
    is_running_ = true;
    const Group first = streams_[0].front();
    const Group second = streams_[1].front();
    lock.unlock();
    run(first, second);
    lock.lock();
    is_running_ = false;
    end_front(1);
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(50));  // Two devices are never through at once.
    lock.lock();
    end_front(0);
  }
}

/// What was aborted meanwhile never ends.
void Link::end_front(std::size_t side) {
  if (!is_aborted_[side]) {
    streams_[side].front().event.is_over_->store(true, std::memory_order_release);
    streams_[side].pop_front();
  }
  changed_.notify_all();
}

void Link::run(const Group& first, const Group& second) {
  copy(of_side(first, true), of_side(second, false));
  copy(of_side(second, true), of_side(first, false));
}

void Link::copy(std::span<const Operation> from, std::span<const Operation> to) {
  if (from.size() != to.size()) end_process("a group's sends are not as many as its peer's receives");
  for (std::size_t i = 0; i < from.size(); ++i) {
    const std::span<std::byte> source = from[i].memory;
    if (source.size() != to[i].memory.size()) end_process("a send and its receive differ in size");
    for (std::size_t at = 0; at < source.size(); at += fifo_.size()) {
      const std::size_t size = std::min(fifo_.size(), source.size() - at);
      std::memcpy(fifo_.data(), source.data() + at, size);
      std::memcpy(to[i].memory.data() + at, fifo_.data(), size);
    }
  }
}

void Communicator::send(std::span<const std::byte> memory) {
  auto* const readable = const_cast<std::byte*>(memory.data());  // One kind of memory for both sides.
  group_.push_back({true, {readable, memory.size()}});
}

void HostLane::send(int to, Packet packet) {
  Inbox& inbox = inboxes_[static_cast<std::size_t>(to)];
  const std::lock_guard lock(inbox.mutex);
  inbox.packets.push_back(std::move(packet));
}

std::optional<HostLane::Packet> HostLane::try_receive(int rank) {
  Inbox& inbox = inboxes_[static_cast<std::size_t>(rank)];
  const std::lock_guard lock(inbox.mutex);
  if (inbox.packets.empty()) return std::nullopt;
  Packet packet = std::move(inbox.packets.front());
  inbox.packets.pop_front();
  return packet;
}

World::World(int num_ranks) : num_ranks_(num_ranks), lane_(num_ranks) {
  links_.resize(static_cast<std::size_t>(num_ranks) * static_cast<std::size_t>(num_ranks));
  for (int low = 0; low < num_ranks; ++low) {
    for (int high = low + 1; high < num_ranks; ++high) {
      links_[index_of(low, high, num_ranks)] = std::make_shared<Link>();
    }
  }
}

Communicator World::communicator(int rank, int peer) const {
  const int low = std::min(rank, peer);
  const int high = std::max(rank, peer);
  return {links_[index_of(low, high, num_ranks_)], rank == low ? 0U : 1U};
}

std::shared_ptr<World> World::join_child(std::uint64_t index) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<World>& child = children_[index];
  if (!child) child = std::make_shared<World>(num_ranks_);
  return child;
}

}  // namespace nccl_like
