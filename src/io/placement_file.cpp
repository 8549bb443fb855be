// SPDX-License-Identifier: Apache-2.0
#include "io/placement_file.hpp"

#include "io/top_level.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

namespace trimtab {
namespace {

namespace sj = simdjson::ondemand;

tl::unexpected<Error> bad(std::string message) { return failure(Errc::invalid_argument, std::move(message)); }

class MapReader {
 public:
  Status read(sj::value value) {
    sj::array rows;
    if (value.get_array().get(rows)) {
      return bad(fmt::format("\"physical_to_logical_map\" is {}, not a list of layers",
                             quote_token(value.raw_json_token())));
    }
    for (auto element : rows) {
      sj::value row;
      if (element.get(row)) return bad(fmt::format("malformed list after {} layers", num_layers_));
      if (Status done = read_layer(row); !done) return done;
      ++num_layers_;
    }
    if (num_layers_ == 0) return bad("\"physical_to_logical_map\" is an empty list");
    return {};
  }

  Result<Placement> finish(std::optional<std::int32_t> num_experts) && {
    const auto largest = std::max_element(map_.begin(), map_.end());
    return Placement::make(static_cast<std::int32_t>(num_layers_), static_cast<std::int32_t>(num_slots_),
                           num_experts.value_or(largest->value() + 1), std::move(map_));
  }

 private:
  Status read_layer(sj::value value) {
    sj::array row;
    if (value.get_array().get(row)) {
      return bad(fmt::format("layer {}: {} is not a list of experts (expected [layers][slots])", num_layers_,
                             quote_token(value.raw_json_token())));
    }
    std::size_t slot = 0;
    for (auto element : row) {
      sj::value entry;
      if (element.get(entry)) return bad(fmt::format("layer {}, slot {}: malformed list", num_layers_, slot));
      if (Status done = read_expert(entry, slot); !done) return done;
      ++slot;
    }
    return check_length(slot);
  }

  Status read_expert(sj::value value, std::size_t slot) {
    constexpr std::int64_t max_expert = std::numeric_limits<std::int32_t>::max() - 1;
    std::int64_t expert = 0;
    if (value.get_int64().get(expert) || expert < no_expert.value() || expert > max_expert) {
      return bad(fmt::format("layer {}, slot {}: {} is not an expert in 0..{} or -1 for a vacant slot",
                             num_layers_, slot, quote_token(value.raw_json_token()), max_expert));
    }
    map_.emplace_back(static_cast<std::int32_t>(expert));
    return {};
  }

  Status check_length(std::size_t slots) {
    if (slots == 0) return bad(fmt::format("layer {}: no slots (an empty list)", num_layers_));
    if (num_slots_ == 0) num_slots_ = slots;
    if (slots == num_slots_) return {};
    return bad(fmt::format("layer {}: {} slots, but layer 0 has {}", num_layers_, slots, num_slots_));
  }

  std::size_t num_layers_ = 0;
  std::size_t num_slots_ = 0;
  std::vector<ExpertId> map_;
};

void append_row(std::string& text, std::span<const ExpertId> row) {
  text += '[';
  for (std::size_t s = 0; s < row.size(); ++s) {
    fmt::format_to(std::back_inserter(text), "{}{}", s == 0 ? "" : ",", row[s].value());
  }
  text += ']';
}

}  // namespace

Result<Placement> parse_placement(const JsonText& text, std::optional<std::int32_t> num_experts) {
  MapReader reader;
  Status done =
      read_top_level(text, "physical_to_logical_map", [&](sj::value value) { return reader.read(value); });
  if (!done) return failure(std::move(done));
  Result<Placement> placement = std::move(reader).finish(num_experts);
  if (!placement) placement.error().message = fmt::format("{}: {}", text.path(), placement.error().message);
  return placement;
}

std::string format_placement(const Placement& placement) {
  std::string text = "{\"physical_to_logical_map\": [";
  for (LayerId layer : ids<LayerId>(placement.num_layers())) {
    if (layer != LayerId{0}) text += ",\n";
    append_row(text, placement.layer(layer));
  }
  return text + "]}\n";
}

}  // namespace trimtab
