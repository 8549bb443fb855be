// SPDX-License-Identifier: Apache-2.0
#include <trimtab/migrate/background_progress.hpp>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace trimtab {
namespace {

class BackgroundEngine final : public Engine {
 public:
  BackgroundEngine(std::unique_ptr<Engine> engine, const BackgroundOptions& options)
      : options_(options),
        engine_(std::move(engine)),
        counters_(engine_->counters()),
        thread_([this](const std::stop_token& stop) { run(stop); }) {}

  ~BackgroundEngine() override {
    thread_.request_stop();
    wake_.notify_all();
    thread_.join();
  }
  BackgroundEngine(const BackgroundEngine&) = delete;
  BackgroundEngine& operator=(const BackgroundEngine&) = delete;

  Status begin(Program program, std::shared_ptr<const TableCompiler> tables) override {
    const std::lock_guard lock(mutex_);
    Status begun = engine_->begin(std::move(program), std::move(tables));
    wake_.notify_all();
    return begun;
  }
  Result<bool> begin_toward(MigrationGoal goal) override {
    const std::lock_guard lock(mutex_);
    Result<bool> begun = engine_->begin_toward(std::move(goal));
    wake_.notify_all();
    return begun;
  }
  Result<Admission> advance(Forward next, Clock::duration budget) override {
    const std::lock_guard lock(mutex_);
    if (failure_) return tl::unexpected(*failure_);
    Result<Admission> admission = engine_->advance(next, budget);
    counters_ = engine_->counters();
    return admission;
  }
  Status progress(Clock::duration budget) override {
    const std::lock_guard lock(mutex_);
    if (failure_) return tl::unexpected(*failure_);
    return engine_->progress(budget);
  }
  void note_finished(Forward finished) override {
    const std::lock_guard lock(mutex_);
    engine_->note_finished(finished);
  }
  void note_unheard(Forward forward, Rank peer) override {
    const std::lock_guard lock(mutex_);
    engine_->note_unheard(forward, peer);
  }
  /// Views change inside `advance` only.
  [[nodiscard]] const View& view() const noexcept override {
    const std::lock_guard lock(mutex_);
    return engine_->view();
  }
  [[nodiscard]] const Topology& topology() const noexcept override {
    const std::lock_guard lock(mutex_);
    return engine_->topology();
  }
  [[nodiscard]] bool is_idle() const noexcept override {
    const std::lock_guard lock(mutex_);
    return engine_->is_idle();
  }
  /// Placements change inside `advance` only, so what is returned stays as long as the engine's own.
  [[nodiscard]] const Placement& placement() const noexcept override {
    const std::lock_guard lock(mutex_);
    return engine_->placement();
  }
  [[nodiscard]] const Placement* placement_of(Epoch epoch) const noexcept override {
    const std::lock_guard lock(mutex_);
    return engine_->placement_of(epoch);
  }
  void forget_before(Epoch oldest) override {
    const std::lock_guard lock(mutex_);
    engine_->forget_before(oldest);
  }
  void set_observer(EngineObserver* observer) noexcept override {
    const std::lock_guard lock(mutex_);
    engine_->set_observer(observer);
  }
  [[nodiscard]] EngineHealth health() const override {
    const std::lock_guard lock(mutex_);
    return engine_->health();
  }
  [[nodiscard]] const EngineCounters& counters() const noexcept override {
    const std::lock_guard lock(mutex_);
    return counters_ = engine_->counters();
  }

 private:
  void run(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested() && !failure_) {
      if (engine_->is_idle()) {
        wake_.wait(lock, stop, [this] { return !engine_->is_idle(); });
        continue;
      }
      Status progressed = engine_->progress(options_.slice);
      const bool has_failed = !progressed && progressed.error().code != Errc::cancelled;
      if (has_failed) failure_ = std::move(progressed).error();
      wake_.wait_for(lock, stop, options_.pause, [] { return false; });  // The forward thread's turn.
    }
  }

  BackgroundOptions options_;
  mutable std::mutex mutex_;  ///< Guards all below.
  std::condition_variable_any wake_;
  std::unique_ptr<Engine> engine_;
  std::optional<Error> failure_;
  mutable EngineCounters counters_;  ///< As the forward thread saw them last.
  std::jthread thread_;
};

}  // namespace

std::unique_ptr<Engine> make_background_engine(std::unique_ptr<Engine> engine,
                                               const BackgroundOptions& options) {
  return std::make_unique<BackgroundEngine>(std::move(engine), options);
}

}  // namespace trimtab
