// SPDX-License-Identifier: Apache-2.0
#include "io/load_file.hpp"

#include "io/input_kind.hpp"
#include "io/top_level.hpp"
#include "io/trace_loads.hpp"

#include <trimtab/core/assert.hpp>

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

namespace trimtab {
namespace {

namespace sj = simdjson::ondemand;

tl::unexpected<Error> bad(std::string message) { return failure(Errc::invalid_argument, std::move(message)); }

/// Sums the counts of a file into one matrix.
class CountsReader {
 public:
  Status read(sj::value value) {
    sj::array outer;
    if (value.get_array().get(outer)) {
      return bad(fmt::format("\"logical_count\" is {}, not a list of layers", token_of(value)));
    }
    for (auto element : outer) {
      sj::value inner;
      if (element.get(inner)) return bad(fmt::format("malformed list after {} entries", outer_));
      if (Status done = read_outer(inner); !done) return done;
      ++outer_;
    }
    if (outer_ == 0) return bad("\"logical_count\" is an empty list");
    return {};
  }

  Result<LoadFile> finish() && {
    const std::size_t layers = has_steps_ ? num_layers_ : outer_;
    auto loads = LoadMatrix::make(static_cast<std::int32_t>(layers), static_cast<std::int32_t>(num_experts_),
                                  std::move(sums_));
    if (!loads) return failure(std::move(loads));
    return LoadFile{std::move(*loads), has_steps_ ? static_cast<std::int32_t>(outer_) : 1};
  }

 private:
  static std::string token_of(sj::value value) {
    simdjson::ondemand::json_type type{};
    if (value.type().get(type) == simdjson::SUCCESS) {
      if (type == sj::json_type::array) return "a list";
      if (type == sj::json_type::object) return "an object";
    }
    return quote_token(value.raw_json_token());
  }

  static bool is_list(sj::value value) {
    sj::json_type type{};
    return value.type().get(type) == simdjson::SUCCESS && type == sj::json_type::array;
  }

  // A step, or a layer of a file without steps: the first entry of all decides which.
  Status read_outer(sj::value value) {
    sj::array inner;
    if (value.get_array().get(inner)) {
      return bad(
          fmt::format("{} {}: {} is not a list (expected [layers][experts] or [steps][layers][experts])",
                      has_steps_ ? "step" : "layer", outer_, token_of(value)));
    }
    row_.clear();
    inner_ = 0;
    for (auto element : inner) {
      sj::value entry;
      if (element.get(entry)) return bad(fmt::format("{}: malformed list", place(inner_)));
      if (!is_shape_known_) has_steps_ = is_list(entry);
      is_shape_known_ = true;
      if (Status done = has_steps_ ? read_layer(entry) : read_load(entry); !done) return done;
      ++inner_;
    }
    return has_steps_ ? check_num_layers() : add_row(outer_);
  }

  Status read_layer(sj::value value) {
    sj::array row;
    if (value.get_array().get(row)) {
      return bad(
          fmt::format("step {}, layer {}: {} is not a list of loads", outer_, inner_, token_of(value)));
    }
    row_.clear();
    for (auto element : row) {
      sj::value entry;
      if (element.get(entry)) return bad(fmt::format("{}: malformed list", place(row_.size())));
      if (Status done = read_load(entry); !done) return done;
    }
    return add_row(inner_);
  }

  Status read_load(sj::value value) {
    double load = 0.0;
    if (value.get_double().get(load)) {
      return bad(fmt::format("{}: {} is not a finite number >= 0", place(row_.size()), token_of(value)));
    }
    if (!std::isfinite(load) || load < 0.0) {
      return bad(fmt::format("{}: load {} is not a finite number >= 0", place(row_.size()), load));
    }
    row_.push_back(load);
    return {};
  }

  Status add_row(std::size_t layer) {
    if (row_.empty()) return bad(fmt::format("{}: no experts (an empty list)", place()));
    if (num_experts_ == 0) num_experts_ = row_.size();
    if (row_.size() != num_experts_) {
      return bad(fmt::format("{}: {} experts, but {} has {}", place(), row_.size(),
                             has_steps_ ? "step 0, layer 0" : "layer 0", num_experts_));
    }
    if (!has_steps_ || outer_ == 0) {
      sums_.insert(sums_.end(), row_.begin(), row_.end());
      return {};
    }
    if (layer >= num_layers_) return {};  // check_num_layers tells how many there are.
    for (std::size_t e = 0; e < num_experts_; ++e) {
      double& sum = sums_[layer * num_experts_ + e];
      sum += row_[e];
      if (!std::isfinite(sum)) {
        return bad(fmt::format("{}: load {} makes the sum over the steps {}", place(e), row_[e], sum));
      }
    }
    return {};
  }

  Status check_num_layers() {
    if (inner_ == 0) return bad(fmt::format("step {}: no layers (an empty list)", outer_));
    if (outer_ == 0) num_layers_ = inner_;
    if (inner_ == num_layers_) return {};
    return bad(fmt::format("step {}: {} layers, but step 0 has {}", outer_, inner_, num_layers_));
  }

  std::string place() const {
    return has_steps_ ? fmt::format("step {}, layer {}", outer_, inner_) : fmt::format("layer {}", outer_);
  }
  std::string place(std::size_t expert) const { return fmt::format("{}, expert {}", place(), expert); }

  bool is_shape_known_ = false;
  bool has_steps_ = false;
  std::size_t outer_ = 0;  // The step; or the layer, without steps.
  std::size_t inner_ = 0;  // The layer of a step.
  std::size_t num_layers_ = 0;
  std::size_t num_experts_ = 0;
  std::vector<double> row_;
  std::vector<double> sums_;
};

void append_row(std::string& text, std::span<const double> row) {
  text += '[';
  for (std::size_t e = 0; e < row.size(); ++e) {
    fmt::format_to(std::back_inserter(text), "{}{}", e == 0 ? "" : ",", row[e]);
  }
  text += ']';
}

void append_matrix(std::string& text, const LoadMatrix& loads) {
  text += '[';
  for (LayerId layer : ids<LayerId>(loads.num_layers())) {
    if (layer != LayerId{0}) text += ",\n";
    append_row(text, loads.layer(layer));
  }
  text += ']';
}

Result<LoadFile> read_trace_loads(const std::string& path, const ReadProgress& progress) {
  Result<TraceFile> trace = TraceFile::open(path);
  if (!trace) return failure(std::move(trace));
  Result<TraceLoads> loads = fold_trace(*trace, {}, progress);
  if (!loads) return failure(std::move(loads));
  return LoadFile{std::move(loads->steps.front()), 1};
}

}  // namespace

Result<LoadFile> parse_loads(const JsonText& text) {
  if (begins_as_safetensors(text.view())) {
    return bad(fmt::format("{}: a trace can be read from a file only, not from a pipe", text.path()));
  }
  CountsReader reader;
  Status done = read_top_level(text, "logical_count", [&](sj::value value) { return reader.read(value); });
  if (!done) return failure(std::move(done));
  Result<LoadFile> file = std::move(reader).finish();
  if (!file) file.error().message = fmt::format("{}: {}", text.path(), file.error().message);
  return file;
}

Result<LoadFile> read_load_file(const std::string& path, const ReadProgress& progress) {
  if (is_safetensors(path)) return read_trace_loads(path, progress);
  Result<JsonText> text = JsonText::read(path, progress);
  if (!text) return failure(std::move(text));
  return parse_loads(*text);
}

std::string format_loads(std::span<const LoadMatrix> phases) {
  TRIMTAB_ASSERT(!phases.empty());
  std::string text = "{\"logical_count\": ";
  if (phases.size() > 1) text += '[';
  for (std::size_t p = 0; p < phases.size(); ++p) {
    if (p > 0) text += ",\n";
    append_matrix(text, phases[p]);
  }
  if (phases.size() > 1) text += ']';
  return text + "}\n";
}

}  // namespace trimtab
