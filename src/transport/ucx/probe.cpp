// SPDX-License-Identifier: Apache-2.0
#include <trimtab/transport/ucx.hpp>

#include "transport/ucx/worker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

namespace trimtab {
namespace {

using ucx::Worker;

class NobodyListens final : public ucx::WorkerListener {
 public:
  void arrived(const ucx::Header&, std::span<const std::byte>) override { ++num_arrived; }
  void sent(Rank, void*, bool) override {}
  void broke(Rank) override { is_broken = true; }

  int num_arrived = 0;
  bool is_broken = false;
};

void add_once(std::vector<std::string>& names, std::string name) {
  if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
}

/// Names such as "tcp/eth0" behind `mark` in what UCX prints: "#   lane[0]:  2:tcp/lo.0 md[1] …".
std::vector<std::string> names_after(const std::string& text, std::string_view mark) {
  std::vector<std::string> names;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(mark) == std::string::npos) continue;
    const std::size_t slash = line.find('/');
    if (slash == std::string::npos) continue;
    const std::size_t begin = line.find_last_of(": \t", slash) + 1;
    const std::size_t end = line.find_first_of(". \t", slash);
    add_once(names, line.substr(begin, end - begin));
  }
  return names;
}

std::string version() {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  ucp_get_version(&major, &minor, &release);
  return fmt::format("{}.{}.{}", major, minor, release);
}

/// A message from one worker of this process to another.
Status try_message(Worker& from, Worker& to, const NobodyListens& receiver) {
  constexpr std::chrono::seconds longest{5};
  if (Status connected = from.connect(Rank{1}, to.address()); !connected) return connected;
  from.send(Rank{1}, {}, {}, nullptr);
  const auto deadline = std::chrono::steady_clock::now() + longest;
  while (receiver.num_arrived == 0 && std::chrono::steady_clock::now() < deadline) {
    from.progress();
    to.progress();
  }
  if (receiver.num_arrived > 0) return {};
  return failure(Errc::unavailable, "ucx: no message arrived from this process at itself within 5 s");
}

}  // namespace

Result<UcxReport> probe_ucx(const UcxOptions& options) {
  Result<std::shared_ptr<ucx::Context>> context = ucx::Context::open(options.is_tuned);
  if (!context) return failure(std::move(context));
  NobodyListens sender;
  NobodyListens receiver;
  auto from = Worker::open(*context, 2, sender);
  if (!from) return failure(std::move(from));
  auto to = Worker::open(*context, 2, receiver);
  if (!to) return failure(std::move(to));
  if (Status tried = try_message(**from, **to, receiver); !tried) return failure(std::move(tried));
  return UcxReport{version(), names_after((*from)->describe_devices(), "resource "),
                   names_after((*from)->describe(Rank{1}), "lane[")};
}

}  // namespace trimtab
