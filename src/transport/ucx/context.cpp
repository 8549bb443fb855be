// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/context.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdlib>

namespace trimtab::ucx {
namespace {

struct Setting {
  const char* name;
  const char* value;
};

// Measured on a loopback, one stream of large messages: segments of 8 KiB, the default, are a system call
// each.
constexpr std::array tuned = {
    Setting{"TX_SEG_SIZE", "256k"},
    Setting{"RX_SEG_SIZE", "256k"},
};

bool is_set_by_user(const char* name) { return std::getenv(fmt::format("UCX_{}", name).c_str()) != nullptr; }

// A setting that this UCX does not know is no reason to fail.
void tune(ucp_config_t* config) {
  for (const Setting& setting : tuned) {
    if (!is_set_by_user(setting.name)) ucp_config_modify(config, setting.name, setting.value);
  }
}

}  // namespace

std::string ucx_message(std::string_view call, ucs_status_t status) {
  return fmt::format("ucx: {}: {}", call, ucs_status_string(status));
}

Result<std::shared_ptr<Context>> Context::open(bool is_tuned) {
  ucp_config_t* config = nullptr;
  if (const ucs_status_t status = ucp_config_read(nullptr, nullptr, &config); status != UCS_OK)
    return failure(Errc::unavailable, ucx_message("ucp_config_read", status));
  if (is_tuned) tune(config);
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.mt_workers_shared = 1;
  ucp_context_h handle = nullptr;
  const ucs_status_t status = ucp_init(&params, config, &handle);
  ucp_config_release(config);
  if (status != UCS_OK) return failure(Errc::unavailable, ucx_message("ucp_init", status));
  return std::shared_ptr<Context>(new Context(handle));
}

Context::~Context() { ucp_cleanup(handle_); }

}  // namespace trimtab::ucx
