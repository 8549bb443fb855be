// SPDX-License-Identifier: Apache-2.0
#include "lanes.hpp"

#include "forked.hpp"

#include <sched.h>
#include <ucp/api/ucp.h>

namespace trimtab::bench {
namespace {

void check(ucs_status_t status) {
  if (status != UCS_OK) give_up(ucs_status_string(status));
}

ucp_context_h open_context(bool is_tuned) {
  ucp_config_t* config = nullptr;
  check(ucp_config_read(nullptr, nullptr, &config));
  if (is_tuned) {
    check(ucp_config_modify(config, "RNDV_SCHEME", "am"));
    check(ucp_config_modify(config, "TX_SEG_SIZE", "256k"));
    check(ucp_config_modify(config, "RX_SEG_SIZE", "256k"));
  }
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_TAG;
  ucp_context_h context = nullptr;
  check(ucp_init(&params, config, &context));
  ucp_config_release(config);
  return context;
}

void on_error(void* /*lane*/, ucp_ep_h /*endpoint*/, ucs_status_t /*status*/) {}

class RawUcxLane final : public Lane, public TwoWays {
 public:
  RawUcxLane(const Bootstrap& bootstrap, bool is_tuned) : context_(open_context(is_tuned)) {
    ucp_worker_params_t params{};
    check(ucp_worker_create(context_, &params, &worker_));
    const auto addresses = bootstrap_all_gather(bootstrap, own_address());
    if (!addresses) give_up(addresses.error().message.c_str());
    const auto& address = (*addresses)[bootstrap.rank == Rank{0} ? 1 : 0];
    ucp_ep_params_t peer{};
    peer.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
    peer.address = reinterpret_cast<const ucp_address_t*>(address.data());
    peer.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    peer.err_handler.cb = on_error;
    check(ucp_ep_create(worker_, &peer, &endpoint_));
  }
  ~RawUcxLane() override {
    ucp_worker_destroy(worker_);
    ucp_cleanup(context_);
  }

  void send(std::span<const std::byte> message) override { finish(post_send(message)); }
  void receive(std::span<std::byte> memory) override { finish(post_receive(memory)); }
  void exchange(std::span<const std::span<const std::byte>> out,
                std::span<const std::span<std::byte>> in) override {
    std::vector<void*> requests;
    for (const auto memory : in) requests.push_back(post_receive(memory));
    for (const auto message : out) requests.push_back(post_send(message));
    for (void* request : requests) finish(request);
  }

 private:
  void* post_send(std::span<const std::byte> message) {
    const ucp_request_param_t param{};
    return ucp_tag_send_nbx(endpoint_, message.data(), message.size(), 1, &param);
  }
  void* post_receive(std::span<std::byte> memory) {
    const ucp_request_param_t param{};
    return ucp_tag_recv_nbx(worker_, memory.data(), memory.size(), 1, ~ucp_tag_t{0}, &param);
  }

  std::vector<std::byte> own_address() {
    ucp_address_t* address = nullptr;
    std::size_t size = 0;
    check(ucp_worker_get_address(worker_, &address, &size));
    const auto* const bytes = reinterpret_cast<const std::byte*>(address);
    std::vector<std::byte> copy(bytes, bytes + size);
    ucp_worker_release_address(worker_, address);
    return copy;
  }

  void finish(void* request) {
    if (request == nullptr) return;
    if (UCS_PTR_IS_ERR(request)) check(UCS_PTR_STATUS(request));
    constexpr int num_spins = 50;  // then whoever shares this core is let run
    for (int i = 0; ucp_request_check_status(request) == UCS_INPROGRESS; ++i) {
      if (ucp_worker_progress(worker_) != 0) i = 0;
      if (i > num_spins) sched_yield();
    }
    check(ucp_request_check_status(request));
    ucp_request_free(request);
  }

  ucp_context_h context_;
  ucp_worker_h worker_ = nullptr;
  ucp_ep_h endpoint_ = nullptr;
};

}  // namespace

std::unique_ptr<Lane> make_raw_ucx_lane(const Bootstrap& bootstrap, bool is_tuned) {
  return std::make_unique<RawUcxLane>(bootstrap, is_tuned);
}

std::unique_ptr<TwoWays> make_raw_ucx_ways(const Bootstrap& bootstrap, bool is_tuned) {
  return std::make_unique<RawUcxLane>(bootstrap, is_tuned);
}

}  // namespace trimtab::bench
