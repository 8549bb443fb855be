// SPDX-License-Identifier: Apache-2.0
#include "fuzz/fuzz_input.hpp"
#include "io/trace_file.hpp"
#include "io/trace_loads.hpp"
#include "unit/io/raw_trace.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string>

namespace trimtab::test {
namespace {

/// A file in memory, so that the reader opens, maps and reads one as it always does.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(::memfd_create("trace", MFD_CLOEXEC)) { require(descriptor_ >= 0); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { ::close(descriptor_); }

  void write(const std::string& bytes) const {
    require(::ftruncate(descriptor_, 0) == 0);
    require(::pwrite(descriptor_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  }
  [[nodiscard]] std::string path() const { return fmt::format("/proc/self/fd/{}", descriptor_); }

 private:
  int descriptor_;
};

RawTrace draw_sound(FuzzInput& input) {
  const auto num_experts = static_cast<std::uint32_t>(input.below(2) == 0 ? 1 + input.below(12) : 257);
  const auto top_k = 1 + static_cast<std::uint32_t>(input.below(4)) % num_experts;
  const auto num_rows = static_cast<std::uint32_t>(1 + input.below(3));
  const auto num_tokens = static_cast<std::uint32_t>(1 + input.below(6));
  std::vector<std::uint32_t> layers, request, position, phase, choices;
  for (std::uint32_t row = 0; row < num_rows; ++row) layers.push_back(2 * row + 1);
  for (std::uint32_t token = 0; token < num_tokens; ++token) {
    request.push_back(input.byte());
    position.push_back(input.byte());
    phase.push_back(input.byte() % 2U);
    for (std::uint32_t row = 0; row < num_rows; ++row) {
      const std::uint32_t first = input.byte();
      for (std::uint32_t k = 0; k < top_k; ++k) choices.push_back((first + k) % num_experts);
    }
  }
  const bool is_wide = num_experts > 256;
  RawTrace raw = RawTrace::small();
  raw.metadata["experts"] = fmt::format("{}", num_experts);
  raw.metadata["groups"] = fmt::format("{}", 1);
  raw.metadata["layers"] = fmt::format("{}", 2 * num_rows);
  raw.tensors = {
      {"layers", {"U32", {num_rows}, little_endian(layers, 4)}},
      {"request", {"U32", {num_tokens}, little_endian(request, 4)}},
      {"position", {"U32", {num_tokens}, little_endian(position, 4)}},
      {"topk_ids",
       {is_wide ? "U16" : "U8", {num_tokens, num_rows, top_k}, little_endian(choices, is_wide ? 2 : 1)}},
      {"phase", {"U8", {num_tokens}, little_endian(phase, 1)}}};
  return raw;
}

/// What may be wrong although the file is sound safetensors.
void damage(FuzzInput& input, RawTrace& raw) {
  auto tensor = std::next(raw.tensors.begin(), input.below(static_cast<std::int32_t>(raw.tensors.size())));
  auto entry = std::next(raw.metadata.begin(), input.below(static_cast<std::int32_t>(raw.metadata.size())));
  std::string& bytes = tensor->second.bytes;
  switch (input.below(6)) {
    case 0:
      bytes[input.byte() % bytes.size()] = static_cast<char>(input.byte());
      break;
    case 1:  // Another number of tokens, for this tensor alone.
      tensor->second.shape[0] += 1;
      bytes.append(bytes.size() / (tensor->second.shape[0] - 1), static_cast<char>(input.byte()));
      break;
    case 2:
      tensor->second.shape.push_back(1);
      break;
    case 3:
      entry->second = fmt::format("{}", input.number<std::int32_t>());
      break;
    case 4:
      raw.tensors.erase(tensor);
      break;
    default:
      raw.metadata.erase(entry);
  }
}

/// Whatever the reader hands on can be counted without another look.
void require_sound(const TraceFile& trace, const TraceBatch& batch) {
  const TraceInfo& info = trace.info();
  require(batch.experts.size() == batch.tokens.size() * info.choice_size());
  const auto top_k = static_cast<std::size_t>(info.top_k);
  for (std::size_t at = 0; at < batch.experts.size(); at += top_k) {
    const auto choice = batch.experts.subspan(at, top_k);
    require(std::set(choice.begin(), choice.end()).size() == top_k);
    for (ExpertId expert : choice) require(expert >= ExpertId{0} && expert < ExpertId{info.num_experts});
  }
  for (const TraceToken& token : batch.tokens) {
    require(token.phase == TracePhase::prefill || token.phase == TracePhase::decode);
  }
}

void require_counted(const TraceFile& trace, std::uint64_t window) {
  const Result<TraceLoads> loads = fold_trace(trace, {.phase = {}, .window = window});
  require(loads.has_value() && loads->num_tokens == trace.num_tokens());
  require(loads->steps.size() == (trace.num_tokens() - 1) / window + 1);
  const LoadMatrix total = loads->total();
  const double expected = static_cast<double>(trace.num_tokens()) * trace.info().top_k;
  for (LayerId layer : ids<LayerId>(total.num_layers())) {
    const bool has_row = std::ranges::count(trace.info().layers, layer) == 1;
    require(total.total(layer) == (has_row ? expected : 0.0));
  }
}

void require_told(const Error& error, const std::string& path) {
  require(error.message.starts_with(path + ": ") && error.message.find('\n') == std::string::npos);
}

/// Reads the file. @return whether it was taken.
bool read(const std::string& path, std::uint64_t window) {
  const Result<TraceFile> trace = TraceFile::open(path);
  if (!trace) {
    require_told(trace.error(), path);
    return false;
  }
  require(check_trace_info(trace->info()).has_value());
  std::uint64_t num_tokens = 0;
  const Status done = trace->scan([&](const TraceBatch& batch) {
    require_sound(*trace, batch);
    num_tokens += batch.tokens.size();
  });
  if (!done) {
    require_told(done.error(), path);
    return false;
  }
  require(num_tokens == trace->num_tokens());
  const std::int64_t num_loads = std::int64_t{trace->info().num_layers} * trace->info().num_experts;
  if (num_loads <= 4096) require_counted(*trace, window);
  return true;
}

}  // namespace

/// A sound trace, then the same with something wrong in it; or the bytes of a file.
void fuzz_trace(std::span<const std::uint8_t> bytes) {
  static const MemoryFile file;
  FuzzInput input(bytes);
  if (input.below(4) == 0) {
    const auto rest = bytes.subspan(std::min<std::size_t>(1, bytes.size()));
    file.write({rest.begin(), rest.end()});
    read(file.path(), 1);
    return;
  }
  const auto window = 1 + static_cast<std::uint64_t>(input.below(7));
  RawTrace raw = draw_sound(input);
  file.write(raw.bytes());
  require(read(file.path(), window));
  const int count = 1 + input.below(3);
  for (int i = 0; i < count && !raw.tensors.empty() && !raw.metadata.empty(); ++i) damage(input, raw);
  std::string damaged = raw.bytes();
  if (input.below(4) == 0)
    damaged[input.number<std::uint16_t>() % damaged.size()] = static_cast<char>(input.byte());
  file.write(damaged);
  read(file.path(), window);
}

}  // namespace trimtab::test
