// SPDX-License-Identifier: Apache-2.0
// For safetensors_interoperate.py: `print FILE` tells what is in a file, `write FILE` writes a checkpoint.
#include <trimtab/weights/checkpoint.hpp>
#include <trimtab/weights/safetensors.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <string>
#include <vector>

namespace trimtab::test {
namespace {

int fail(const Error& error) {
  fmt::print(stderr, "{}\n", error.message);
  return 1;
}

int print(const std::string& path) {
  const auto file = SafetensorsFile::open(path);
  if (!file) return fail(file.error());
  for (const auto& [key, value] : file->metadata()) fmt::print("metadata {} {}\n", key, value);
  for (const SafetensorsTensor& tensor : file->tensors()) {
    fmt::print("{} {} [{}] ", tensor.name, to_string(tensor.type), fmt::join(tensor.shape, ", "));
    for (const std::byte byte : file->bytes(tensor)) fmt::print("{:02x}", std::to_integer<int>(byte));
    fmt::print("\n");
  }
  return 0;
}

/// Two experts of three tensors.
int write(const std::string& path) {
  constexpr std::int32_t num_slots = 2;
  std::vector<std::byte> memory(1024);
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::byte>(7 * i + 3);
  std::vector<TensorSpec> tensors(3);
  const char* names[]{"w13", "w13_scale", "w2"};
  const ElementType types[]{ElementType::int8, ElementType::float32, ElementType::uint8};
  const std::size_t bytes[]{24, 16, 12};
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    tensors[i].name = names[i];
    tensors[i].type = types[i];
    tensors[i].base = memory.data() + 256 * i;
    tensors[i].num_slots = num_slots;
    tensors[i].slot_bytes = tensors[i].stride_bytes = bytes[i];
  }
  tensors[0].layout.rows = 4;
  ExpertStore store(2, ids<SlotId>(num_slots));
  if (const Status done = store.register_layer(LayerId{1}, tensors); !done) return fail(done.error());
  const std::vector<StoredExpert> experts{{LayerId{1}, ExpertId{5}, SlotId{0}},
                                          {LayerId{1}, ExpertId{3}, SlotId{1}}};
  if (const Status done = write_checkpoint_shard(path, store, experts); !done) return fail(done.error());
  return 0;
}

}  // namespace
}  // namespace trimtab::test

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() == 2 && arguments[0] == "print") return trimtab::test::print(arguments[1]);
  if (arguments.size() == 2 && arguments[0] == "write") return trimtab::test::write(arguments[1]);
  fmt::print(stderr, "usage: safetensors_cases (print | write) FILE\n");
  return 2;
}
