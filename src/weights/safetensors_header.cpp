// SPDX-License-Identifier: Apache-2.0
#include "safetensors_header.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <utility>

namespace trimtab {
namespace {

namespace dom = simdjson::dom;

tl::unexpected<Error> bad(std::string message) { return failure(Errc::invalid_argument, std::move(message)); }

Status add_metadata(dom::element value, SafetensorsMetadata& metadata) {
  dom::object pairs;
  if (value.get(pairs)) return bad("\"__metadata__\" is not an object of strings");
  for (const auto [key, element] : pairs) {
    std::string_view text;
    if (element.get(text)) return bad(fmt::format("\"__metadata__\": {} is not a string", shown(key)));
    if (!metadata.emplace(key, text).second) {
      return bad(fmt::format("\"__metadata__\": the key {} is there twice", shown(key)));
    }
  }
  return {};
}

Status read_type(dom::element value, SafetensorsTensor& tensor) {
  std::string_view name;
  if (value.get(name)) return bad("\"dtype\" is not a string");
  const auto type = safetensors_type_named(name);
  if (!type) return bad(fmt::format("\"dtype\" {} is not known", shown(name)));
  tensor.type = *type;
  return {};
}

Result<std::vector<std::uint64_t>> read_numbers(std::string_view key, dom::element value) {
  dom::array list;
  if (value.get(list)) return bad(fmt::format("\"{}\" is not a list", key));
  std::vector<std::uint64_t> numbers;
  for (const dom::element element : list) {
    std::uint64_t number = 0;
    if (element.get(number)) {
      return bad(fmt::format("\"{}\", entry {}: not a whole number in 0..2^64-1", key, numbers.size()));
    }
    numbers.push_back(number);
  }
  return numbers;
}

Status read_shape(dom::element value, SafetensorsTensor& tensor) {
  auto shape = read_numbers("shape", value);
  if (!shape) return failure(std::move(shape));
  tensor.shape = *std::move(shape);
  return {};
}

Status read_offsets(dom::element value, SafetensorsTensor& tensor) {
  const auto offsets = read_numbers("data_offsets", value);
  if (!offsets) return tl::unexpected<Error>(offsets.error());
  if (offsets->size() != 2)
    return bad(fmt::format("\"data_offsets\" has {} entries, not 2", offsets->size()));
  tensor.begin = offsets->front();
  tensor.end = offsets->back();
  return {};
}

/// The three keys of a tensor, each once. Others are passed over: the format may grow.
class TensorReader {
 public:
  Status read(dom::element value, SafetensorsTensor& tensor) {
    dom::object pairs;
    if (value.get(pairs)) return bad("not an object");
    for (const auto [key, element] : pairs) {
      if (Status done = read_key(key, element, tensor); !done) return done;
    }
    if (!has_type_) return bad("no \"dtype\"");
    if (!has_shape_) return bad("no \"shape\"");
    if (!has_offsets_) return bad("no \"data_offsets\"");
    return {};
  }

 private:
  Status read_key(std::string_view key, dom::element value, SafetensorsTensor& tensor) {
    if (key == "dtype") return once(key, has_type_, [&] { return read_type(value, tensor); });
    if (key == "shape") return once(key, has_shape_, [&] { return read_shape(value, tensor); });
    if (key == "data_offsets") return once(key, has_offsets_, [&] { return read_offsets(value, tensor); });
    return {};
  }

  template <class Read>
  static Status once(std::string_view key, bool& is_there, Read read) {
    if (std::exchange(is_there, true)) return bad(fmt::format("\"{}\" is there twice", key));
    return read();
  }

  bool has_type_ = false;
  bool has_shape_ = false;
  bool has_offsets_ = false;
};

Status check_range(const SafetensorsTensor& tensor, std::uint64_t data_bytes) {
  if (tensor.end < tensor.begin)
    return bad(fmt::format("ends at {} < its begin {}", tensor.end, tensor.begin));
  if (tensor.end > data_bytes) {
    return bad(fmt::format("ends at {} > {}, the bytes behind the header", tensor.end, data_bytes));
  }
  const auto expected = tensor_bytes(tensor.type, tensor.shape);
  if (!expected) return tl::unexpected<Error>(expected.error());
  if (*expected == tensor.size_bytes()) return {};
  return bad(fmt::format("{} bytes, but type and shape say {}", tensor.size_bytes(), *expected));
}

Status check_tiling(std::span<const SafetensorsTensor> tensors, std::uint64_t data_bytes) {
  std::vector<const SafetensorsTensor*> order;
  for (const SafetensorsTensor& tensor : tensors) order.push_back(&tensor);
  std::ranges::sort(order, {}, [](const auto* t) { return std::pair(t->begin, t->end); });
  std::uint64_t end = 0;
  const SafetensorsTensor* before = nullptr;
  for (const SafetensorsTensor* tensor : order) {
    if (tensor->begin < end) {
      return bad(fmt::format("tensor {} begins at {}, inside tensor {}, which ends at {}",
                             shown(tensor->name), tensor->begin, shown(before->name), end));
    }
    if (tensor->begin > end) {
      return bad(fmt::format("tensor {} begins at {}, but the bytes from {} on are of no tensor",
                             shown(tensor->name), tensor->begin, end));
    }
    end = tensor->end;
    before = tensor;
  }
  if (end == data_bytes) return {};
  return bad(fmt::format("the tensors end at {}, but {} bytes are behind the header", end, data_bytes));
}

Status check_names(std::span<const SafetensorsTensor> tensors) {
  const auto twice = std::ranges::adjacent_find(tensors, {}, &SafetensorsTensor::name);
  if (twice == tensors.end()) return {};
  return bad(fmt::format("tensor {} is there twice", shown(twice->name)));
}

Status add_tensor(std::string_view name, dom::element value, std::uint64_t data_bytes,
                  std::vector<SafetensorsTensor>& tensors) {
  SafetensorsTensor tensor;
  tensor.name = name;
  Status done = TensorReader().read(value, tensor);
  if (done) done = check_range(tensor, data_bytes);
  if (!done) return bad(fmt::format("tensor {}: {}", shown(name), done.error().message));
  tensors.push_back(std::move(tensor));
  return {};
}

Result<SafetensorsHeader> parse(std::string_view text, std::uint64_t data_bytes) {
  if (!text.starts_with('{'))
    return bad(fmt::format("the header begins with {}, not '{{'", shown(text.substr(0, 8))));
  dom::parser parser;
  dom::object root;
  if (const auto error = parser.parse(text.data(), text.size()).get(root)) {
    return bad(fmt::format("the header is not a JSON object: {}", simdjson::error_message(error)));
  }
  SafetensorsHeader header;
  bool has_metadata = false;
  for (const auto [name, value] : root) {
    Status done;
    if (name != safetensors_metadata_key) {
      done = add_tensor(name, value, data_bytes, header.tensors);
    } else if (std::exchange(has_metadata, true)) {
      done = bad("\"__metadata__\" is there twice");
    } else {
      done = add_metadata(value, header.metadata);
    }
    if (!done) return failure(std::move(done));
  }
  std::ranges::sort(header.tensors, {}, &SafetensorsTensor::name);
  if (Status unique = check_names(header.tensors); !unique) return failure(std::move(unique));
  if (Status tiled = check_tiling(header.tensors, data_bytes); !tiled) return failure(std::move(tiled));
  return header;
}

}  // namespace

Result<SafetensorsHeader> parse_safetensors_header(const std::string& path, std::string_view text,
                                                   std::uint64_t data_bytes) {
  Result<SafetensorsHeader> header = parse(text, data_bytes);
  if (!header) header.error().message = fmt::format("{}: {}", path, header.error().message);
  return header;
}

}  // namespace trimtab
