// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/migrate/engine.hpp>

#include <chrono>
#include <memory>

namespace trimtab {

/// How a background thread works.
struct BackgroundOptions {
  std::chrono::microseconds slice{200};  ///< Longest work at a time; a call may have to wait that long.
  std::chrono::microseconds pause{50};   ///< Between two looks at a program that has nothing to do.
};

/// An engine whose messages and staging go on between the calls of the forward thread, on a thread of their
/// own; it sleeps while no program runs. Commits still happen inside `advance` alone.
///
/// Use it like the engine it owns, from the forward thread: every call takes turns with the background, for
/// which it waits at most about one slice. An observer is told of transitions on either thread, of commits on
/// the forward thread. The transport must allow its channels to be driven by different threads at a time.
/// An error in the background is returned by the next `advance` or `progress`.
/// Precondition: `engine` is new; `clock` is the engine's and may be read from any thread.
[[nodiscard]] std::unique_ptr<Engine> make_background_engine(std::unique_ptr<Engine> engine,
                                                             const BackgroundOptions& options = {});

}  // namespace trimtab
