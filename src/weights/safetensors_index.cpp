// SPDX-License-Identifier: Apache-2.0
#include <trimtab/weights/safetensors_writer.hpp>

#include "core/pending_file.hpp"
#include "file_access.hpp"
#include "safetensors_header.hpp"

#include <fmt/format.h>
#include <simdjson.h>
#include <nlohmann/json.hpp>

#include <utility>

namespace trimtab {
namespace {

namespace dom = simdjson::dom;

tl::unexpected<Error> bad(std::string message) { return failure(Errc::invalid_argument, std::move(message)); }

/// An index names files beside itself; a path would lead a reader anywhere.
bool is_plain_name(std::string_view name) {
  return !name.empty() && name.find('/') == std::string_view::npos && name != "." && name != ".." &&
         name.find('\0') == std::string_view::npos;
}

Status add_file(std::string_view tensor, dom::element value, SafetensorsIndex& index) {
  std::string_view file;
  if (value.get(file) || !is_plain_name(file)) {
    return bad(fmt::format("\"weight_map\": tensor {}: {} is not the name of a file in the same folder",
                           shown(tensor), value.is_string() ? shown(file) : "the value"));
  }
  if (index.file_of.emplace(tensor, file).second) return {};
  return bad(fmt::format("\"weight_map\": tensor {} is there twice", shown(tensor)));
}

Status add_weight_map(dom::element value, SafetensorsIndex& index) {
  dom::object map;
  if (value.get(map)) return bad("\"weight_map\" is not an object");
  for (const auto [tensor, file] : map) {
    if (Status done = add_file(tensor, file, index); !done) return done;
  }
  return {};
}

Result<SafetensorsIndex> parse(std::string_view text) {
  dom::parser parser;
  dom::object root;
  if (const auto error = parser.parse(text.data(), text.size()).get(root)) {
    return bad(fmt::format("not a JSON object: {}", simdjson::error_message(error)));
  }
  SafetensorsIndex index;
  int num_maps = 0;
  for (const auto [key, value] : root) {
    if (key == "metadata" && value["total_size"].get(index.total_bytes) != simdjson::SUCCESS)
      index.total_bytes = 0;
    if (key != "weight_map") continue;
    ++num_maps;
    if (Status done = add_weight_map(value, index); !done) return failure(std::move(done));
  }
  if (num_maps != 1) return bad(fmt::format("\"weight_map\" is there {} times, not once", num_maps));
  return index;
}

}  // namespace

Result<SafetensorsIndex> SafetensorsIndex::read(const std::string& path) {
  auto file = open_to_read(path);
  if (!file) return failure(std::move(file));
  if (file->size_bytes > SafetensorsFile::max_header_bytes) {
    return bad(fmt::format("{}: {} bytes > {}, the longest index that is read", path, file->size_bytes,
                           SafetensorsFile::max_header_bytes));
  }
  std::string text(static_cast<std::size_t>(file->size_bytes), '\0');
  if (Status done = read_fully(file->descriptor, path, 0, std::as_writable_bytes(std::span(text))); !done) {
    return failure(std::move(done));
  }
  Result<SafetensorsIndex> index = parse(text);
  if (!index) index.error().message = fmt::format("{}: {}", path, index.error().message);
  return index;
}

Status SafetensorsIndex::write(const std::string& path) const {
  for (const auto& [tensor, file] : file_of) {
    if (!simdjson::validate_utf8(tensor) || !simdjson::validate_utf8(file) || !is_plain_name(file)) {
      return bad(fmt::format("{}: tensor {} in file {}: not a name that an index can hold", path,
                             shown(tensor), shown(file)));
    }
  }
  const nlohmann::json root{{"metadata", {{"total_size", total_bytes}}}, {"weight_map", file_of}};
  const std::string text = root.dump(2) + "\n";
  auto pending = PendingFile::create(path);
  if (!pending) return failure(std::move(pending));
  if (Status done = pending->write(0, std::as_bytes(std::span(text))); !done) return done;
  return pending->commit();
}

}  // namespace trimtab
