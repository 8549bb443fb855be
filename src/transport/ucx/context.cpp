// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/context.hpp"

#include <fmt/format.h>
#include <ucs/debug/log_def.h>

#include <array>
#include <cstdarg>
#include <cstdio>
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

/// UCX writes to standard output, where the data of a program go. Its errors about peers are told by ours,
/// once and by rank; who wants its own too sets UCX_LOG_LEVEL.
ucs_log_func_rc_t write_to_stderr(const char* /*file*/, unsigned /*line*/, const char* /*function*/,
                                  ucs_log_level_t level, const ucs_log_component_config_t* /*component*/,
                                  const char* message, va_list arguments) {
  static const bool is_wanted = is_set_by_user("LOG_LEVEL");
  if (level > UCS_LOG_LEVEL_FATAL && !is_wanted) return UCS_LOG_FUNC_RC_STOP;
  std::array<char, 512> text{};
  std::vsnprintf(text.data(), text.size(), message, arguments);
  std::fprintf(stderr, "ucx: %s\n", text.data());
  return UCS_LOG_FUNC_RC_STOP;
}

/// Once per process; UCX keeps such handlers in a list.
void send_log_to_stderr() {
  static const bool is_sent = [] {
    ucs_log_push_handler(write_to_stderr);
    return true;
  }();
  static_cast<void>(is_sent);
}

}  // namespace

std::string ucx_message(std::string_view call, ucs_status_t status) {
  return fmt::format("ucx: {}: {}", call, ucs_status_string(status));
}

Result<std::shared_ptr<Context>> Context::open(bool is_tuned) {
  send_log_to_stderr();
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
