// SPDX-License-Identifier: Apache-2.0
#include <trimtab/weights/safetensors_writer.hpp>

#include "core/pending_file.hpp"
#include "safetensors_header.hpp"

#include <fmt/format.h>
#include <simdjson.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace trimtab {
namespace {

tl::unexpected<Error> bad(std::string message) { return failure(Errc::invalid_argument, std::move(message)); }

Status check_text(std::string_view what, std::string_view text) {
  if (simdjson::validate_utf8(text)) return {};
  return bad(fmt::format("{} {} is not valid UTF-8", what, shown(text)));
}

/// Gives every tensor its place.
Result<std::vector<SafetensorsTensor>> place(std::vector<SafetensorsEntry> entries) {
  std::vector<SafetensorsTensor> tensors;
  std::uint64_t end = 0;
  for (SafetensorsEntry& entry : entries) {
    if (Status text = check_text("tensor", entry.name); !text) return failure(std::move(text));
    if (entry.name == safetensors_metadata_key) return bad("\"__metadata__\" cannot be a tensor's name");
    const auto bytes = tensor_bytes(entry.type, entry.shape);
    if (!bytes) return bad(fmt::format("tensor {}: {}", shown(entry.name), bytes.error().message));
    const std::uint64_t begin = end;
    if (__builtin_add_overflow(begin, *bytes, &end)) {
      return bad(fmt::format("tensor {}: {} bytes behind {} overflow", shown(entry.name), *bytes, begin));
    }
    tensors.push_back({std::move(entry.name), entry.type, std::move(entry.shape), begin, end});
  }
  return tensors;
}

Status check_names(std::span<const SafetensorsTensor> tensors) {
  std::vector<std::string_view> names;
  for (const SafetensorsTensor& tensor : tensors) names.push_back(tensor.name);
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice == names.end()) return {};
  return bad(fmt::format("tensor {} is there twice", shown(*twice)));
}

Status check_metadata(const SafetensorsMetadata& metadata) {
  for (const auto& [key, value] : metadata) {
    if (Status text = check_text("metadata key", key); !text) return text;
    if (Status text = check_text("metadata value", value); !text) return text;
  }
  return {};
}

/// Length and text, padded so that the tensors begin at a multiple of 8.
std::string make_header(std::span<const SafetensorsTensor> tensors, const SafetensorsMetadata& metadata) {
  nlohmann::ordered_json root = nlohmann::ordered_json::object();
  // Pushed without a search for the key, which would take square time; keys are known to differ.
  auto& pairs = root.get_ref<nlohmann::ordered_json::object_t&>();
  if (!metadata.empty()) pairs.push_back({std::string(safetensors_metadata_key), metadata});
  for (const SafetensorsTensor& tensor : tensors) {
    pairs.push_back({tensor.name,
                     {{"dtype", std::string(to_string(tensor.type))},
                      {"shape", tensor.shape},
                      {"data_offsets", {tensor.begin, tensor.end}}}});
  }
  std::string text = root.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  std::string length;
  for (std::size_t i = 0; i < safetensors_length_bytes; ++i) {
    length += static_cast<char>(text.size() >> (8 * i) & 0xff);
  }
  return length + text;
}

/// What has to be escaped takes more room than it is long.
std::size_t size_as_json(const std::string& text) { return nlohmann::json(text).dump().size(); }

}  // namespace

struct SafetensorsWriter::State {
  PendingFile file;
  std::vector<SafetensorsTensor> tensors;
  SafetensorsMetadata metadata;
  std::uint64_t header_bytes = 0;  ///< With its length.
  std::uint64_t data_bytes = 0;
  std::uint64_t num_appended = 0;
};

SafetensorsWriter::SafetensorsWriter(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
SafetensorsWriter::SafetensorsWriter(SafetensorsWriter&&) noexcept = default;
SafetensorsWriter& SafetensorsWriter::operator=(SafetensorsWriter&&) noexcept = default;
SafetensorsWriter::~SafetensorsWriter() = default;

Result<SafetensorsWriter> SafetensorsWriter::create(const std::string& path,
                                                    std::vector<SafetensorsEntry> entries,
                                                    SafetensorsMetadata metadata) {
  const auto refuse = [&](const Error& error) {
    return failure(error.code, fmt::format("{}: {}", path, error.message));
  };
  auto tensors = place(std::move(entries));
  if (!tensors) return refuse(tensors.error());
  if (const Status unique = check_names(*tensors); !unique) return refuse(unique.error());
  if (const Status text = check_metadata(metadata); !text) return refuse(text.error());
  const std::uint64_t header_bytes = make_header(*tensors, metadata).size();
  if (header_bytes - safetensors_length_bytes > SafetensorsFile::max_header_bytes) {
    return bad(fmt::format("{}: a header of {} bytes > {}, the longest allowed", path,
                           header_bytes - safetensors_length_bytes, SafetensorsFile::max_header_bytes));
  }
  auto file = PendingFile::create(path);
  if (!file) return failure(std::move(file));
  const std::uint64_t data_bytes = tensors->empty() ? 0 : tensors->back().end;
  return SafetensorsWriter(std::unique_ptr<State>(
      new State{*std::move(file), *std::move(tensors), std::move(metadata), header_bytes, data_bytes, 0}));
}

Status SafetensorsWriter::append(std::span<const std::byte> bytes) {
  const std::uint64_t room = state_->data_bytes - state_->num_appended;
  if (bytes.size() > room) {
    return bad(fmt::format("{}: {} bytes more, but the tensors lack {} of {}", state_->file.path(),
                           bytes.size(), room, state_->data_bytes));
  }
  Status done = state_->file.write(state_->header_bytes + state_->num_appended, bytes);
  if (done) state_->num_appended += bytes.size();
  return done;
}

Status SafetensorsWriter::replace_metadata(std::string_view key, std::string value) {
  const auto at = state_->metadata.find(key);
  if (at == state_->metadata.end()) {
    return failure(Errc::not_found, fmt::format("{}: no metadata {}", state_->file.path(), shown(key)));
  }
  if (Status text = check_text("metadata value", value); !text) return text;
  if (size_as_json(value) != size_as_json(at->second)) {
    return bad(fmt::format("{}: metadata {}: {} takes not the room of {}", state_->file.path(), shown(key),
                           shown(value), shown(at->second)));
  }
  at->second = std::move(value);
  return {};
}

Status SafetensorsWriter::commit() {
  if (state_->num_appended != state_->data_bytes) {
    return bad(fmt::format("{}: {} of the tensors' {} bytes were given", state_->file.path(),
                           state_->num_appended, state_->data_bytes));
  }
  const std::string header = make_header(state_->tensors, state_->metadata);
  if (Status done = state_->file.write(0, std::as_bytes(std::span(header))); !done) return done;
  return state_->file.commit();
}

}  // namespace trimtab
