// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/transport/bootstrap.hpp>
#include <trimtab/transport/transport.hpp>

#include <memory>
#include <string>
#include <vector>

namespace trimtab {

/// How UCX is used.
struct UcxOptions {
  /// Sets what measured well (size of tcp segments) where the environment (UCX_…) leaves it open.
  bool is_tuned = true;
};

/// Holds UCX and this rank's connections to the other ranks of its job. Move-only. Transports made from it
/// may outlive it.
class UcxSession {
 public:
  /// Meets the other ranks by the bootstrap and connects to each. Blocks; collective.
  /// @return what `bootstrap_all_gather` does; `timeout` naming the rank that does not connect; `unavailable`
  ///         when built without UCX (TRIMTAB_ENABLE_UCX=OFF) or UCX finds no device that can be used.
  static Result<UcxSession> start(const Bootstrap& bootstrap, const UcxOptions& options = {});
  ~UcxSession();
  UcxSession(UcxSession&&) noexcept;
  UcxSession& operator=(UcxSession&&) noexcept;

 private:
  friend Result<std::unique_ptr<Transport>> make_ucx_transport(UcxSession& session);
  explicit UcxSession(std::unique_ptr<Transport> lobby) noexcept;
  std::unique_ptr<Transport> lobby_;  ///< A channel that others are opened from.
};

/// Ranks are processes, on one host or several, or threads with a session each. Two-sided active messages
/// over a UCX worker of its own; fault tolerant: a killed peer breaks only what is exchanged with it. Host
/// memory only. Collective: every rank of the session calls it in the same order; ranks that are gone are not
/// waited for. @return `unavailable` when built without UCX; `timeout` naming a rank that does not come.
[[nodiscard]] Result<std::unique_ptr<Transport>> make_ucx_transport(UcxSession& session);

/// What UCX would do on this machine, for people.
struct UcxReport {
  std::string version;               ///< Of the library that runs, "1.13.1".
  std::vector<std::string> devices;  ///< "tcp/eth0", … : what was found.
  std::vector<std::string> lanes;  ///< "tcp/lo", …: chosen for a peer on this machine, with error handling.
};

/// Tries UCX within this process alone. @return `unavailable`, saying why.
[[nodiscard]] Result<UcxReport> probe_ucx(const UcxOptions& options = {});

}  // namespace trimtab
