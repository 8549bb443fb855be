// SPDX-License-Identifier: Apache-2.0
#include <trimtab/migrate/peer_copy_source.hpp>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

namespace trimtab {
namespace {

/// After it was asked, a keeper stays awake this long: the next piece of the bundle is asked for soon.
constexpr Clock::duration wakefulness = std::chrono::milliseconds(2);

class BackgroundCopies final : public PeerCopySource {
 public:
  BackgroundCopies(std::unique_ptr<PeerCopySource> copies, const Clock& clock, Clock::duration pause)
      : copies_(std::move(copies)),
        clock_(clock),
        pause_(pause),
        thread_([this](const std::stop_token& stop) { run(stop); }) {}

  [[nodiscard]] bool holds(LayerId layer, ExpertId expert) const override {
    return copies_->holds(layer, expert);
  }
  [[nodiscard]] bool is_verified(LayerId layer, ExpertId expert) const override {
    return copies_->is_verified(layer, expert);
  }
  [[nodiscard]] std::string describe() const override { return copies_->describe(); }
  Result<bool> progress() override { return copies_->progress(); }
  Status replace(std::shared_ptr<const HostCopySource> copies, HostCopyPlan plan) override {
    return copies_->replace(std::move(copies), std::move(plan));
  }

 private:
  Status read_bundle(LayerId layer, ExpertId expert, std::span<std::byte> bundle) override {
    return copies_->read(layer, expert, bundle);
  }

  void run(const std::stop_token& stop) {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any wake;
    for (Clock::time_point asleep_at{}; !stop.stop_requested();) {
      const Result<bool> was_asked = copies_->progress();
      if (!was_asked) return;
      if (*was_asked) asleep_at = clock_.now() + wakefulness;
      if (clock_.now() < asleep_at) {
        std::this_thread::yield();
      } else {
        wake.wait_for(lock, stop, pause_, [] { return false; });
      }
    }
  }

  std::unique_ptr<PeerCopySource> copies_;
  const Clock& clock_;
  Clock::duration pause_;
  std::jthread thread_;
};

}  // namespace

Result<std::unique_ptr<PeerCopySource>> make_background_peer_copies(
    const PeerCopyOptions& options, std::unique_ptr<Transport> channel,
    std::shared_ptr<const HostCopySource> copies, HostCopyPlan plan, const Liveness* liveness,
    const Clock& clock, Clock::duration pause) {
  auto made =
      PeerCopySource::make(options, std::move(channel), std::move(copies), std::move(plan), liveness, clock);
  if (!made) return made;
  return std::unique_ptr<PeerCopySource>(std::make_unique<BackgroundCopies>(std::move(*made), clock, pause));
}

}  // namespace trimtab
