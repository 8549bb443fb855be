// SPDX-License-Identifier: Apache-2.0
//
// Staging between two processes under mpirun, up to the vote, beside the same tensors sent and received by
// MPI alone.

#include "stage_turns.hpp"

#include <trimtab/transport/mpi.hpp>

#include <mpi.h>

namespace trimtab::bench {
namespace {

double slowest(double seconds) {
  double most = 0.0;
  MPI_Allreduce(&seconds, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return most;
}

/// Four bundles each way, tensor by tensor.
class RawSends {
 public:
  explicit RawSends(ExpertShape shape)
      : shape_(shape),
        out_(bundles_each_way * shape.bundle_bytes(), std::byte{1}),
        in_(bundles_each_way * shape.bundle_bytes(), std::byte{2}) {}

  double run(int peer) {
    std::vector<MPI_Request> requests;
    MPI_Barrier(MPI_COMM_WORLD);
    const auto begun = std::chrono::steady_clock::now();
    std::size_t at = 0;
    for (std::size_t bundle = 0; bundle < bundles_each_way; ++bundle) {
      for (const std::size_t bytes : shape_.tensor_bytes()) {
        const auto size = static_cast<int>(bytes);
        MPI_Irecv(&in_[at], size, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &requests.emplace_back());
        MPI_Isend(&out_[at], size, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &requests.emplace_back());
        at += bytes;
      }
    }
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    return slowest(std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count());
  }
  [[nodiscard]] bool is_right() const { return in_ == out_; }

 private:
  ExpertShape shape_;
  std::vector<std::byte> out_;
  std::vector<std::byte> in_;
};

int run() {
  auto session = MpiSession::start();
  if (!session) {
    fmt::print(stderr, "{}\n", session.error().message);
    return 1;
  }
  int me = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  const Together together{[] { MPI_Barrier(MPI_COMM_WORLD); }, slowest};
  std::string rows;
  for (const auto& [size, shape] : stage_sizes) {
    auto channel = make_mpi_transport(*session);
    if (!channel) give_up(channel.error());
    StageRank rank(shape, std::move(*channel), together);
    RawSends twin(shape);
    rows += (rows.empty() ? "" : ",\n") + take_turns(fmt::format("migrate/mpi staging of 8 bundles/{}", size),
                                                     shape, rank, [&] { return twin.run(1 - me); });
    if (!rank.is_right() || !twin.is_right()) {
      fmt::print(stderr, "rank {}: a slot holds wrong bytes\n", me);
      session->abort(1);
    }
  }
  if (me == 0) fmt::print("[{}]\n", rows);
  return 0;
}

}  // namespace
}  // namespace trimtab::bench

int main() { return trimtab::bench::run(); }
