// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/clock.hpp>
#include <trimtab/core/ids.hpp>
#include <trimtab/core/result.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trimtab {

class Socket;

/// What one process must know to meet the others of its job: at rank 0, over TCP.
struct Bootstrap {
  Rank rank;
  std::int32_t num_ranks = 1;
  std::string host;        ///< Of rank 0: a name or an address.
  std::uint16_t port = 0;  ///< Of rank 0.
  std::string job;         ///< Processes of different jobs refuse each other.
  std::string found_in;    ///< "TRIMTAB_BOOTSTRAP", "mpirun", "torchrun", "slurm", …: for people.
  Clock::duration deadline = std::chrono::seconds(30);  ///< For all to meet; then for each channel to open.
  /// Rank 0 only, optional: a socket that listens on `port` already, so that nobody else can take it.
  std::shared_ptr<Socket> listening = nullptr;
};

/// Reads an environment variable: null when it is not set.
using Environment = std::function<const char*(const char* name)>;
/// That of this process.
[[nodiscard]] Environment process_environment();

/// Finds out who this process is. First found: `TRIMTAB_RANK`, `TRIMTAB_NUM_RANKS`; mpirun; torchrun; SLURM.
/// `TRIMTAB_BOOTSTRAP=host:port` names rank 0's address in every case; without it torchrun's MASTER_ADDR
/// and the port after MASTER_PORT (its own is taken), SLURM's first node, and for an mpirun whose ranks are
/// all on one host the loopback, each with a port made of the job's id. `TRIMTAB_JOB` replaces the job's id.
/// @return empty when the environment says nothing of ranks; `invalid_argument` naming the variable and its
///         value when one is wrong or missing.
[[nodiscard]] Result<std::optional<Bootstrap>> find_bootstrap(const Environment& environment);

/// Bootstraps of `num_ranks` ranks on this machine, in rank order: for a process that starts them as threads
/// or by fork. Rank 0's listens already, on a port that was free; whoever forks keeps it open until rank 0
/// has it.
/// @return `invalid_argument` when `num_ranks < 1`; `io` when no socket can be had.
[[nodiscard]] Result<std::vector<Bootstrap>> make_local_bootstraps(std::int32_t num_ranks);

/// Every rank gives `mine` (at most 1 MiB) and gets those of all, in rank order. Blocks; collective. One rank
/// alone opens no socket.
/// @return `timeout` naming who was waited for; `invalid_argument` on every rank when two claim one rank, or
///         differ about the number of ranks or the job; `version_mismatch`; `corrupt`; `io`.
[[nodiscard]] Result<std::vector<std::vector<std::byte>>> bootstrap_all_gather(
    const Bootstrap& bootstrap, std::span<const std::byte> mine);

}  // namespace trimtab
