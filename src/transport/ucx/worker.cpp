// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/worker.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace trimtab::ucx {
namespace {

constexpr unsigned message_id = 1;

/// How long UCX may take to give up what it was told to give up. It has needed 2 s.
constexpr std::chrono::seconds shut_time{3};

template <class Print>
std::string printed(const Print& print) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* const file = open_memstream(&text, &size);
  if (file == nullptr) return "";
  print(file);
  std::fclose(file);
  std::string copy(text, size);
  std::free(text);
  return copy;
}

}  // namespace

Worker::Worker(std::shared_ptr<Context> context, std::int32_t num_ranks, WorkerListener& listener)
    : context_(std::move(context)), listener_(listener), connections_(static_cast<std::size_t>(num_ranks)) {
  for (Rank rank : ids<Rank>(num_ranks)) {
    connections_[rank.index()].worker = this;
    connections_[rank.index()].rank = rank;
  }
}

Worker::~Worker() {
  if (handle_ == nullptr) return;
  shut();
  ucp_worker_destroy(handle_);
}

Result<std::unique_ptr<Worker>> Worker::open(std::shared_ptr<Context> context, std::int32_t num_ranks,
                                             WorkerListener& listener) {
  std::unique_ptr<Worker> worker(new Worker(std::move(context), num_ranks, listener));
  if (Status started = worker->start(); !started) return failure(std::move(started));
  return worker;
}

Status Worker::start() {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  if (const ucs_status_t status = ucp_worker_create(context_->handle(), &params, &handle_); status != UCS_OK)
    return failure(Errc::unavailable, ucx_message("ucp_worker_create", status));
  if (const ucs_status_t status = ucp_worker_get_efd(handle_, &event_fd_); status != UCS_OK)
    return failure(Errc::unavailable, ucx_message("ucp_worker_get_efd", status));
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                       UCP_AM_HANDLER_PARAM_FIELD_ARG | UCP_AM_HANDLER_PARAM_FIELD_FLAGS;
  handler.id = message_id;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG;
  handler.cb = on_arrival;
  handler.arg = this;
  if (const ucs_status_t status = ucp_worker_set_am_recv_handler(handle_, &handler); status != UCS_OK)
    return failure(Errc::unavailable, ucx_message("ucp_worker_set_am_recv_handler", status));
  ucp_address_t* address = nullptr;
  std::size_t size = 0;
  if (const ucs_status_t status = ucp_worker_get_address(handle_, &address, &size); status != UCS_OK)
    return failure(Errc::unavailable, ucx_message("ucp_worker_get_address", status));
  const auto* const bytes = reinterpret_cast<const std::byte*>(address);
  address_.assign(bytes, bytes + size);
  ucp_worker_release_address(handle_, address);
  return {};
}

Status Worker::connect(Rank rank, std::span<const std::byte> address) {
  Connection& connection = connections_[rank.index()];
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = on_error;
  params.err_handler.arg = &connection;
  const ucs_status_t status = ucp_ep_create(handle_, &params, &connection.endpoint);
  if (status == UCS_OK) return {};
  connection.endpoint = nullptr;
  return failure(Errc::peer_lost, fmt::format("rank {} cannot be reached: {}", rank.value(),
                                              ucx_message("ucp_ep_create", status)));
}

Worker::Sending& Worker::take_sending() {
  if (free_sendings_.empty()) free_sendings_.push_back(&sendings_.emplace_back());
  Sending& sending = *free_sendings_.back();
  free_sendings_.pop_back();
  return sending;
}

void Worker::send(Rank to, const Header& header, std::span<const std::byte> payload, void* what) {
  Sending& sending = take_sending();
  sending.worker = this;
  sending.to = to;
  sending.what = what;
  sending.header = header;
  submit(sending, payload);
}

void Worker::send_copy(Rank to, const Header& header, std::span<const std::byte> payload) {
  Sending& sending = take_sending();
  sending.worker = this;
  sending.to = to;
  sending.what = nullptr;
  sending.header = header;
  sending.copy.assign(payload.begin(), payload.end());
  submit(sending, sending.copy);
}

void Worker::submit(Sending& sending, std::span<const std::byte> payload) {
  ++num_sending_;
  const Connection& connection = connections_[sending.to.index()];
  if (connection.endpoint == nullptr || connection.is_broken) return end(sending, UCS_ERR_CANCELED);
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS |
                       UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.cb.send = on_sent;
  param.user_data = &sending;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  void* const request = ucp_am_send_nbx(connection.endpoint, message_id, &sending.header,
                                        sizeof sending.header, payload.data(), payload.size(), &param);
  take(sending, request);
}

void Worker::take(Sending& sending, void* request) {
  if (request == nullptr) return end(sending, UCS_OK);
  if (UCS_PTR_IS_ERR(request)) end(sending, UCS_PTR_STATUS(request));
}

void Worker::end(Sending& sending, ucs_status_t status) {
  --num_sending_;
  void* const what = sending.what;
  const Rank to = sending.to;
  sending.copy.clear();
  free_sendings_.push_back(&sending);
  if (status != UCS_OK) set_broken(connections_[to.index()]);
  if (what != nullptr) listener_.sent(to, what, status == UCS_OK);
}

void Worker::set_broken(Connection& connection) {
  if (connection.is_broken) return;
  connection.is_broken = true;
  listener_.broke(connection.rank);
}

void Worker::on_sent(void* request, ucs_status_t status, void* sending) {
  auto& ended = *static_cast<Sending*>(sending);
  ucp_request_free(request);
  ended.worker->end(ended, status);
}

void Worker::on_error(void* connection, ucp_ep_h /*endpoint*/, ucs_status_t /*status*/) {
  auto& broken = *static_cast<Connection*>(connection);
  broken.worker->set_broken(broken);
}

// Every message is sent eagerly, so what arrives is here, and is not kept.
ucs_status_t Worker::on_arrival(void* worker, const void* header, std::size_t header_bytes, void* data,
                                std::size_t data_bytes, const ucp_am_recv_param_t* /*param*/) {
  auto& self = *static_cast<Worker*>(worker);
  Header copy;
  if (header_bytes != sizeof copy) return UCS_OK;
  std::memcpy(&copy, header, sizeof copy);
  const auto source = static_cast<std::size_t>(copy.source);
  if (source < self.connections_.size()) {
    self.listener_.arrived(copy, {static_cast<const std::byte*>(data), data_bytes});
  }
  return UCS_OK;
}

bool Worker::progress() {
  const bool has_moved = ucp_worker_progress(handle_) != 0;
  reap_closed();
  return has_moved;
}

void Worker::sleep(std::chrono::nanoseconds budget) {
  if (ucp_worker_arm(handle_) != UCS_OK) return;  // Something has happened.
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(budget);
  const timespec time{.tv_sec = seconds.count(), .tv_nsec = (budget - seconds).count()};
  pollfd event{event_fd_, POLLIN, 0};
  ::ppoll(&event, 1, &time, nullptr);
}

void Worker::start_closing(Connection& connection) {
  if (connection.endpoint == nullptr) return;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  const ucp_ep_h endpoint = std::exchange(connection.endpoint, nullptr);
  connection.is_broken = true;
  void* const request = ucp_ep_close_nbx(endpoint, &param);
  if (UCS_PTR_IS_PTR(request)) closing_.push_back(request);
}

void Worker::reap_closed() {
  const auto has_ended = [](void* request) {
    if (ucp_request_check_status(request) == UCS_INPROGRESS) return false;
    ucp_request_free(request);
    return true;
  };
  std::erase_if(closing_, has_ended);
}

void Worker::drop(Rank rank) { start_closing(connections_[rank.index()]); }

void Worker::shut() {
  for (Connection& connection : connections_) start_closing(connection);
  const auto deadline = std::chrono::steady_clock::now() + shut_time;
  while ((!closing_.empty() || num_sending_ > 0) && std::chrono::steady_clock::now() < deadline) progress();
}

std::string Worker::describe(Rank rank) const {
  return printed([&](std::FILE* file) { ucp_ep_print_info(connections_[rank.index()].endpoint, file); });
}

std::string Worker::describe_devices() const {
  return printed([&](std::FILE* file) { ucp_context_print_info(context_->handle(), file); });
}

}  // namespace trimtab::ucx
