// SPDX-License-Identifier: Apache-2.0
//
// A tenth of a checkpoint's experts read back as a recovery does it, beside the twin: the same ranges of the
// same file by `pread` alone, unverified. "warm" files are in the page cache; "cold" ones were dropped from
// it before each read, as far as the system heeds that. Host copies stand beside memcpy.

#include <trimtab/weights/checkpoint.hpp>
#include <trimtab/weights/host_copy_source.hpp>
#include <trimtab/weights/safetensors.hpp>

#include "registered_main.hpp"

#include <benchmark/benchmark.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace trimtab {
namespace {

constexpr LayerId layer{0};
constexpr std::int32_t num_experts = 40;
constexpr std::int32_t num_read = num_experts / 10;
constexpr std::size_t hidden = 2048;
constexpr std::size_t intermediate = 1024;

struct Weights {
  Weights() {
    add("w13", ElementType::int8, 2 * intermediate, hidden);
    add("w13_scale", ElementType::float32, 1, 2 * intermediate);
    add("w2", ElementType::int8, hidden, intermediate);
    add("w2_scale", ElementType::float32, 1, hidden);
    is_sound = store.register_layer(layer, tensors).has_value();
  }

  void add(const char* name, ElementType type, std::size_t rows, std::size_t columns) {
    TensorSpec spec;
    spec.name = name;
    spec.type = type;
    spec.num_slots = num_experts;
    spec.slot_bytes = spec.stride_bytes = rows * columns * size_of(type);
    spec.layout.rows = rows;
    auto& bytes = memory.emplace_back(spec.stride_bytes * num_experts);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 2654435761U >> 24);
    spec.base = bytes.data();
    tensors.push_back(spec);
  }

  std::vector<std::vector<std::byte>> memory;
  std::vector<TensorSpec> tensors;
  ExpertStore store{1, ids<SlotId>(num_experts)};
  bool is_sound = false;
};

/// Every tenth.
ExpertId expert_to_read(std::int32_t i) { return ExpertId{10 * i + 3}; }

/// Slot s holds expert s, here and in the file, which is removed at the end.
class Checkpoint {
 public:
  Checkpoint() {
    path = (std::filesystem::temp_directory_path() /
            ("trimtab-bench-" + std::to_string(::getpid()) + ".safetensors"))
               .string();
    std::vector<StoredExpert> all;
    for (SlotId slot : weights.store.slots()) all.push_back({layer, ExpertId{slot.value()}, slot});
    is_sound = weights.is_sound && write_checkpoint_shard(path, weights.store, all).has_value();
    descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    staging.resize(num_read * bundle_bytes());
  }
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;
  ~Checkpoint() {
    ::close(descriptor);
    std::filesystem::remove(path);
  }

  std::size_t bundle_bytes() const { return weights.store.bundle_bytes(layer); }
  std::span<std::byte> room(std::int32_t i) {
    return std::span(staging).subspan(static_cast<std::size_t>(i) * bundle_bytes(), bundle_bytes());
  }
  void make_cold() const { ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED); }

  /// Whether staging has the slots' bytes; it is overwritten, so that the next run shows what it read.
  bool take_staged() {
    std::vector<std::byte> expected(bundle_bytes());
    bool is_same = true;
    for (std::int32_t i = 0; i < num_read; ++i) {
      weights.store.read_bundle(layer, SlotId{expert_to_read(i).value()}, expected);
      is_same = is_same && std::ranges::equal(room(i), expected);
    }
    std::ranges::fill(staging, std::byte{0xee});
    return is_same;
  }

  Weights weights;
  std::string path;
  std::vector<std::byte> staging;
  int descriptor = -1;
  bool is_sound = false;
};

Checkpoint& checkpoint() {
  static Checkpoint one;
  return one;
}

/// One bundle's ranges of the file, in the order of a bundle.
struct Range {
  off_t offset;
  std::size_t size;
};

std::vector<Range> ranges_of(const SafetensorsFile& file, ExpertId expert) {
  std::vector<Range> ranges;
  const std::byte* start = file.bytes(file.tensors()[0]).data() - file.tensors()[0].begin;
  const auto data_begin =
      static_cast<off_t>(std::filesystem::file_size(file.path())) -
      static_cast<off_t>(std::ranges::max(file.tensors(), {}, &SafetensorsTensor::end).end);
  for (const TensorSpec& tensor : checkpoint().weights.tensors) {
    const std::string name =
        "model.layers.0.mlp.experts." + std::to_string(expert.value()) + "." + tensor.name;
    const auto bytes = file.bytes(*file.find(name));
    ranges.push_back({data_begin + (bytes.data() - start), bytes.size()});
  }
  return ranges;
}

template <class ReadAll>
void measure(benchmark::State& state, bool is_cold, ReadAll read_all) {
  Checkpoint& files = checkpoint();
  bool is_right = files.is_sound;
  files.take_staged();
  for (auto _ : state) {
    if (is_cold) {
      state.PauseTiming();
      files.make_cold();
      state.ResumeTiming();
    }
    is_right = read_all() && is_right;
    benchmark::ClobberMemory();
  }
  if (!is_right || !files.take_staged()) state.SkipWithError("wrong bytes");
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(files.staging.size()));
}

bool read_from(ExpertSource& source) {
  bool is_right = true;
  for (std::int32_t i = 0; i < num_read; ++i) {
    is_right = source.read(layer, expert_to_read(i), checkpoint().room(i)).has_value() && is_right;
  }
  return is_right;
}

void from_checkpoint(benchmark::State& state, bool is_cold) {
  const auto source = CheckpointSource::open(checkpoint().path, checkpoint().weights.store);
  if (!source || !(*source)->is_verified(layer, expert_to_read(0)))
    return state.SkipWithError("no checkpoint");
  measure(state, is_cold, [&] { return read_from(**source); });
}

void plain_pread(benchmark::State& state, bool is_cold) {
  const auto file = SafetensorsFile::open(checkpoint().path);
  if (!file) return state.SkipWithError("no checkpoint");
  std::vector<std::vector<Range>> bundles;
  for (std::int32_t i = 0; i < num_read; ++i) bundles.push_back(ranges_of(*file, expert_to_read(i)));
  measure(state, is_cold, [&] {
    bool is_right = true;
    for (std::int32_t i = 0; i < num_read; ++i) {
      std::byte* to = checkpoint().room(i).data();
      for (const Range& range : bundles[static_cast<std::size_t>(i)]) {
        is_right = ::pread(checkpoint().descriptor, to, range.size, range.offset) ==
                       static_cast<ssize_t>(range.size) &&
                   is_right;
        to += range.size;
      }
    }
    return is_right;
  });
}

void from_host_copies(benchmark::State& state) {
  HostCopySource source(checkpoint().staging.size());
  std::vector<std::byte> bundle(checkpoint().bundle_bytes());
  for (std::int32_t i = 0; i < num_read; ++i) {
    checkpoint().weights.store.read_bundle(layer, SlotId{expert_to_read(i).value()}, bundle);
    if (!source.add(layer, expert_to_read(i), bundle)) return state.SkipWithError("no room");
  }
  measure(state, false, [&] { return read_from(source); });
}

void plain_memcpy(benchmark::State& state) {
  std::vector<std::byte> copies(checkpoint().staging.size());
  for (std::int32_t i = 0; i < num_read; ++i) {
    checkpoint().weights.store.read_bundle(
        layer, SlotId{expert_to_read(i).value()},
        std::span(copies).subspan(static_cast<std::size_t>(i) * checkpoint().bundle_bytes(),
                                  checkpoint().bundle_bytes()));
  }
  measure(state, false, [&] {
    std::memcpy(checkpoint().staging.data(), copies.data(), copies.size());
    return true;
  });
}

void register_benchmarks() {
  const auto add = [](const char* name, auto run, auto... arguments) {
    benchmark::RegisterBenchmark(name, run, arguments...)->Unit(benchmark::kMillisecond)->UseRealTime();
  };
  add("sources/checkpoint, warm", from_checkpoint, false);
  add("sources/checkpoint, warm/twin", plain_pread, false);
  add("sources/checkpoint, cold", from_checkpoint, true);
  add("sources/checkpoint, cold/twin", plain_pread, true);
  add("sources/host copies", from_host_copies);
  add("sources/host copies/twin", plain_memcpy);
}

}  // namespace
}  // namespace trimtab

int main(int argc, char** argv) {
  return trimtab::bench::run_registered(argc, argv, trimtab::register_benchmarks);
}
