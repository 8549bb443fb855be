// SPDX-License-Identifier: Apache-2.0
#include <trimtab/transport/ucx.hpp>

#include "transport/ucx/ucx_end.hpp"

namespace trimtab {

UcxSession::UcxSession(std::unique_ptr<Transport> lobby) noexcept : lobby_(std::move(lobby)) {}
UcxSession::~UcxSession() = default;
UcxSession::UcxSession(UcxSession&&) noexcept = default;
UcxSession& UcxSession::operator=(UcxSession&&) noexcept = default;

Result<UcxSession> UcxSession::start(const Bootstrap& bootstrap, const UcxOptions& options) {
  const auto deadline = std::chrono::steady_clock::now() + bootstrap.deadline;
  Result<std::shared_ptr<ucx::Context>> context = ucx::Context::open(options.is_tuned);
  if (!context) return failure(std::move(context));
  auto lobby =
      ucx::UcxEnd::open(std::move(*context), bootstrap.rank, bootstrap.num_ranks, bootstrap.deadline);
  if (!lobby) return failure(std::move(lobby));
  const auto addresses = bootstrap_all_gather(bootstrap, (*lobby)->address());
  if (!addresses) return tl::unexpected(addresses.error());
  for (Rank peer : ids<Rank>(bootstrap.num_ranks)) {
    if (peer == bootstrap.rank) continue;
    if (Status connected = (*lobby)->connect(peer, (*addresses)[peer.index()]); !connected)
      return failure(std::move(connected));
  }
  Status met = (*lobby)->await_hellos(nullptr, deadline - std::chrono::steady_clock::now());
  if (!met) return failure(std::move(met));
  return UcxSession(std::move(*lobby));
}

Result<std::unique_ptr<Transport>> make_ucx_transport(UcxSession& session) {
  return session.lobby_->open_channel();
}

}  // namespace trimtab
