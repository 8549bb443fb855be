// SPDX-License-Identifier: Apache-2.0
#include "fuzz/fuzz_input.hpp"
#include "weights/expert_names.hpp"
#include "weights/safetensors_header.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace trimtab::test {
namespace {

/// Every byte behind the header is of one tensor, and every tensor is as long as it says.
void require_tiled(const SafetensorsHeader& header, std::uint64_t data_bytes) {
  std::vector<const SafetensorsTensor*> order;
  for (const SafetensorsTensor& tensor : header.tensors) order.push_back(&tensor);
  std::ranges::sort(order, {}, [](const auto* t) { return std::pair(t->begin, t->end); });
  std::uint64_t end = 0;
  for (const SafetensorsTensor* tensor : order) {
    require(tensor->begin == end && tensor->end >= end);
    require(tensor_bytes(tensor->type, tensor->shape) == tensor->size_bytes());
    end = tensor->end;
  }
  require(end == data_bytes);
}

void require_names(const SafetensorsHeader& header) {
  static const ExpertNames names = *ExpertNames::make("m.{layer}.e.{expert}.{tensor}");
  for (std::size_t i = 0; i < header.tensors.size(); ++i) {
    const std::string& name = header.tensors[i].name;
    require(i == 0 || header.tensors[i - 1].name < name);
    const auto parts = names.match(name);
    require(!parts || names.name(parts->layer, parts->expert, parts->tensor) == name);
  }
}

}  // namespace

/// The number of bytes behind the header, and the header.
void fuzz_header(std::span<const std::uint8_t> bytes) {
  FuzzInput input(bytes);
  const std::uint64_t data_bytes = input.byte();
  if (!bytes.empty()) bytes = bytes.subspan(1);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto header = parse_safetensors_header("file", text, data_bytes);
  if (!header) {
    require(header.error().code == Errc::invalid_argument && header.error().message.starts_with("file: "));
    return;
  }
  require_tiled(*header, data_bytes);
  require_names(*header);
}

}  // namespace trimtab::test
