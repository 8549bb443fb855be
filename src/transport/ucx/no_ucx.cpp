// SPDX-License-Identifier: Apache-2.0
#include <trimtab/transport/ucx.hpp>

namespace trimtab {
namespace {

constexpr const char* not_built =
    "ucx: trimtab was built without UCX (TRIMTAB_ENABLE_UCX=OFF, or no UCX was found when it was configured)";

}  // namespace

UcxSession::UcxSession(std::unique_ptr<Transport> lobby) noexcept : lobby_(std::move(lobby)) {}
UcxSession::~UcxSession() = default;
UcxSession::UcxSession(UcxSession&&) noexcept = default;
UcxSession& UcxSession::operator=(UcxSession&&) noexcept = default;

Result<UcxSession> UcxSession::start(const Bootstrap&, const UcxOptions&) {
  return failure(Errc::unavailable, not_built);
}

Result<std::unique_ptr<Transport>> make_ucx_transport(UcxSession&) {
  return failure(Errc::unavailable, not_built);
}

Result<UcxReport> probe_ucx(const UcxOptions&) { return failure(Errc::unavailable, not_built); }

}  // namespace trimtab
