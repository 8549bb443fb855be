// SPDX-License-Identifier: Apache-2.0
//
// Staging between two processes under mpirun, up to the vote, beside the same tensors sent and received by
// MPI alone. They take turns. Prints rows as bench/table.py makes them.

#include "two_ranks.hpp"

#include <trimtab/transport/mpi.hpp>

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

namespace trimtab::bench {
namespace {

constexpr int num_warm_up = 2;
constexpr int num_repetitions = 15;

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

/// This process's rank of the service.
class MpiRank {
 public:
  MpiRank(ExpertShape shape, const MpiSession& session) : shape_(shape) {
    auto channel = make_mpi_transport(session);
    if (!channel) std::abort();
    const Rank me = (*channel)->rank();
    rank_ = std::make_unique<BenchRank>(shape, topology_.slots_of(me), topology_);
    EngineOptions options;
    options.staging_budget_bytes = budget();
    options.deadline = std::chrono::minutes(1);  // A busy machine must not end a step.
    rank_->make_engine(options, std::move(*channel), topology_, clock_);
  }

  double run_step() {
    const Engine& engine = rank_->engine();
    const std::vector<std::size_t> bytes{shape_.bundle_bytes()};
    const Program program =
        *build_program({engine.health().epoch, engine.placement(), engine.placement() == here ? there : here,
                        topology_, bytes, budget()});
    MPI_Barrier(MPI_COMM_WORLD);
    const auto begun = std::chrono::steady_clock::now();
    rank_->run(program);
    return slowest(std::chrono::duration<double>(rank_->voted() - begun).count());
  }
  [[nodiscard]] bool is_right() const { return rank_->is_right(); }

 private:
  [[nodiscard]] std::size_t budget() const { return bundles_each_way * (shape_.bundle_bytes() + 64); }

  ExpertShape shape_;
  Topology topology_ = *Topology::make_uniform(2, 1, 2 * slots_per_rank);
  SteadyClock clock_;
  std::unique_ptr<BenchRank> rank_;
};

std::string row(const std::string& name, std::vector<double> seconds, ExpertShape shape,
                const std::string& counters) {
  std::ranges::sort(seconds);
  const double median = seconds[seconds.size() / 2];
  const double bytes = static_cast<double>(2 * bundles_each_way * shape.bundle_bytes());
  return fmt::format(
      R"({{"name": "{}", "median_ns": {}, "p95_ns": {}, "bytes_per_second": {}, "counters": {{{}}}}})", name,
      median * 1e9, seconds[seconds.size() * 95 / 100] * 1e9, bytes / median, counters);
}

/// Both rows of one size, or nothing when bytes are wrong.
std::string measure(const std::string& size, ExpertShape shape, const MpiSession& session, int me) {
  MpiRank rank(shape, session);
  RawSends twin(shape);
  std::vector<double> engine_seconds;
  std::vector<double> twin_seconds;
  std::vector<double> shares;
  for (int i = 0; i < num_warm_up + num_repetitions; ++i) {
    const double of_engine = rank.run_step();
    const double of_twin = twin.run(1 - me);
    if (i < num_warm_up) continue;
    engine_seconds.push_back(of_engine);
    twin_seconds.push_back(of_twin);
    shares.push_back(of_twin / of_engine);
  }
  if (!rank.is_right() || !twin.is_right()) return "";
  std::ranges::sort(shares);
  const std::string counters =
      fmt::format(R"("of_twin": {:.3f}, "of_twin_low": {:.3f}, "of_twin_high": {:.3f})",
                  shares[shares.size() / 2], shares[shares.size() / 4], shares[shares.size() * 3 / 4]);
  const std::string name = "migrate/mpi staging of 8 bundles/" + size;
  return row(name, engine_seconds, shape, counters) + ",\n" + row(name + "/twin", twin_seconds, shape, "");
}

int run() {
  auto session = MpiSession::start();
  if (!session) {
    fmt::print(stderr, "{}\n", session.error().message);
    return 1;
  }
  int me = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  std::string rows;
  for (const auto& [size, shape] :
       {std::pair("4 MB", ExpertShape{2048, 704}), std::pair("15 MB", ExpertShape{5120, 1024}),
        std::pair("44 MB", ExpertShape{7168, 2048})}) {
    const std::string measured = measure(size, shape, *session, me);
    if (measured.empty()) {
      fmt::print(stderr, "rank {}: a slot holds wrong bytes\n", me);
      session->abort(1);
    }
    rows += (rows.empty() ? "" : ",\n") + measured;
  }
  if (me == 0) fmt::print("[{}]\n", rows);
  return 0;
}

}  // namespace
}  // namespace trimtab::bench

int main() { return trimtab::bench::run(); }
