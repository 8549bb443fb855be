// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "unit/weights/raw_safetensors.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace trimtab::test {

/// Numbers as they lie in a file, each in `width` bytes.
inline std::string little_endian(const std::vector<std::uint32_t>& numbers, int width) {
  std::string bytes;
  for (std::uint32_t number : numbers) {
    for (int i = 0; i < width; ++i) bytes += static_cast<char>(number >> (8 * i) & 0xff);
  }
  return bytes;
}

/// A trace as docs/formats/trace.md draws it, put together past the writer, so that anything in it may be
/// wrong.
struct RawTrace {
  struct Tensor {
    std::string type;
    std::vector<std::uint64_t> shape;
    std::string bytes;
  };
  std::map<std::string, std::string> metadata;
  std::map<std::string, Tensor> tensors;

  /// Three tokens of a model of 4 layers, of which 1 and 3 have 6 experts in 2 groups, top-2.
  static RawTrace small() {
    return {{{"format", "trimtab.trace/1"},
             {"model", "tiny"},
             {"domain", "english"},
             {"experts", "6"},
             {"groups", "2"},
             {"layers", "4"}},
            {{"layers", {"U32", {2}, little_endian({1, 3}, 4)}},
             {"request", {"U32", {3}, little_endian({7, 7, 9}, 4)}},
             {"position", {"U32", {3}, little_endian({0, 1, 70000}, 4)}},
             {"topk_ids", {"U8", {3, 2, 2}, little_endian({0, 1, 5, 4, 0, 2, 5, 3, 1, 0, 2, 1}, 1)}},
             {"phase", {"U8", {3}, little_endian({0, 0, 1}, 1)}}}};
  }

  [[nodiscard]] std::string bytes() const {
    std::string pairs, data;
    for (const auto& [key, value] : metadata) {
      pairs += fmt::format(R"({}"{}":"{}")", pairs.empty() ? "" : ",", key, value);
    }
    std::string header = fmt::format(R"({{"__metadata__":{{{}}})", pairs);
    for (const auto& [name, tensor] : tensors) {
      header +=
          fmt::format(R"(,"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", name, tensor.type,
                      fmt::join(tensor.shape, ","), data.size(), data.size() + tensor.bytes.size());
      data += tensor.bytes;
    }
    return raw_safetensors(header + "}", data);
  }
};

}  // namespace trimtab::test
