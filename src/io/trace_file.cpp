// SPDX-License-Identifier: Apache-2.0
#include "io/trace_file.hpp"

#include "weights/safetensors_header.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <tuple>
#include <utility>
#include <vector>

namespace trimtab {
namespace {

constexpr std::size_t batch_ids = std::size_t{1} << 18;

tl::unexpected<Error> bad(const SafetensorsFile& file, const std::string& problem) {
  return failure(Errc::invalid_argument, fmt::format("{}: {}", file.path(), problem));
}

Result<std::string> text_of(const SafetensorsFile& file, std::string_view key) {
  const auto at = file.metadata().find(key);
  if (at == file.metadata().end()) return bad(file, fmt::format("not a trace: no metadata \"{}\"", key));
  return at->second;
}

Result<std::int32_t> number_of(const SafetensorsFile& file, std::string_view key) {
  Result<std::string> text = text_of(file, key);
  if (!text) return failure(std::move(text));
  std::int32_t number = 0;
  const char* end = text->data() + text->size();
  const auto read = std::from_chars(text->data(), end, number);
  if (read.ec == std::errc{} && read.ptr == end) return number;
  return bad(file, fmt::format("metadata \"{}\": {} is not a number below 2^31", key, shown(*text)));
}

Status check_format(const SafetensorsFile& file) {
  Result<std::string> format = text_of(file, "format");
  if (!format) return failure(std::move(format));
  if (*format == trace_format_name) return {};
  return bad(file, fmt::format("not a trace: its format is {}, not {}", shown(*format), trace_format_name));
}

std::string shape_text(std::span<const std::uint64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

Result<const SafetensorsTensor*> tensor_of(const SafetensorsFile& file, std::string_view name,
                                           std::size_t num_axes) {
  const SafetensorsTensor* tensor = file.find(name);
  if (tensor == nullptr) return bad(file, fmt::format("not a trace: no tensor \"{}\"", name));
  if (tensor->shape.size() == num_axes) return tensor;
  return bad(file, fmt::format("tensor \"{}\": {} axes, not {}", name, tensor->shape.size(), num_axes));
}

Status check_type(const SafetensorsFile& file, const SafetensorsTensor& tensor, SafetensorsType type) {
  if (tensor.type == type) return {};
  return bad(file, fmt::format("tensor \"{}\": {} where {} is expected", tensor.name, to_string(tensor.type),
                               to_string(type)));
}

Status check_shape(const SafetensorsFile& file, const SafetensorsTensor& tensor,
                   std::span<const std::uint64_t> shape) {
  if (std::ranges::equal(tensor.shape, shape)) return {};
  return bad(file, fmt::format("tensor \"{}\": {} where {} is expected", tensor.name,
                               shape_text(tensor.shape), shape_text(shape)));
}

/// A column with a value for each token.
Result<const SafetensorsTensor*> column_of(const SafetensorsFile& file, std::string_view name,
                                           SafetensorsType type, std::uint64_t num_tokens) {
  auto tensor = tensor_of(file, name, 1);
  if (!tensor) return tensor;
  if (Status s = check_type(file, **tensor, type); !s) return failure(std::move(s));
  if (Status s = check_shape(file, **tensor, std::span(&num_tokens, 1)); !s) return failure(std::move(s));
  return tensor;
}

Result<std::vector<LayerId>> read_layers(const SafetensorsFile& file, std::int32_t num_layers) {
  auto tensor = tensor_of(file, trace_layers_name, 1);
  if (!tensor) return failure(std::move(tensor));
  if (Status s = check_type(file, **tensor, SafetensorsType::u32); !s) return failure(std::move(s));
  const std::uint64_t num_rows = (*tensor)->shape[0];
  if (num_rows > static_cast<std::uint64_t>(std::max(num_layers, 0))) {
    return bad(file, fmt::format("tensor \"layers\": {} rows > {} layers", num_rows, num_layers));
  }
  std::vector<std::uint32_t> numbers(static_cast<std::size_t>(num_rows));
  if (Status s = file.read(**tensor, 0, std::as_writable_bytes(std::span(numbers))); !s) {
    return failure(std::move(s));
  }
  std::vector<LayerId> layers;
  for (std::uint32_t number : numbers) {
    if (number >= static_cast<std::uint32_t>(num_layers)) {  // Before it loses its upper half.
      return bad(file,
                 fmt::format("row {}: layer {} is not in 0..{}", layers.size(), number, num_layers - 1));
    }
    layers.emplace_back(static_cast<std::int32_t>(number));
  }
  return layers;
}

/// The numbers of the metadata, not yet checked.
Status read_numbers(const SafetensorsFile& file, TraceInfo& info) {
  const std::pair<const char*, std::int32_t*> numbers[] = {
      {"experts", &info.num_experts}, {"groups", &info.num_groups}, {"layers", &info.num_layers}};
  for (const auto& [key, number] : numbers) {
    Result<std::int32_t> read = number_of(file, key);
    if (!read) return failure(std::move(read));
    *number = *read;
  }
  return {};
}

Result<TraceInfo> read_info(const SafetensorsFile& file, const SafetensorsTensor& experts) {
  TraceInfo info;
  Result<std::string> model = text_of(file, "model");
  if (!model) return failure(std::move(model));
  Result<std::string> domain = text_of(file, "domain");
  if (!domain) return failure(std::move(domain));
  info.model = *std::move(model);
  info.domain = *std::move(domain);
  if (Status s = read_numbers(file, info); !s) return failure(std::move(s));
  info.top_k = static_cast<std::int32_t>(std::min<std::uint64_t>(experts.shape[2], max_trace_experts + 1));
  Result<std::vector<LayerId>> layers = read_layers(file, info.num_layers);
  if (!layers) return failure(std::move(layers));
  info.layers = *std::move(layers);
  if (const Status sound = check_trace_info(info); !sound) return bad(file, sound.error().message);
  return info;
}

Status check_experts(const SafetensorsFile& file, const SafetensorsTensor& experts, const TraceInfo& info) {
  const std::uint64_t num_tokens = experts.shape[0];
  const std::uint64_t shape[] = {num_tokens, info.layers.size(), static_cast<std::uint64_t>(info.top_k)};
  if (Status s = check_shape(file, experts, shape); !s) return s;
  if (Status s = check_type(file, experts, trace_id_type(info.num_experts)); !s) return s;
  return num_tokens > 0 ? Status{} : bad(file, "no tokens");
}

template <class Int>
Status read_column(const SafetensorsFile& file, const SafetensorsTensor& tensor, std::uint64_t first,
                   std::span<Int> to) {
  return file.read(tensor, first * sizeof(Int), std::as_writable_bytes(to));
}

}  // namespace

/// Room for one batch, used for all.
class TraceFile::Reader {
 public:
  explicit Reader(const TraceFile& trace)
      : trace_(trace),
        is_wide_(trace.tensors_.experts->type == SafetensorsType::u16),
        check_(trace.info_),
        batch_tokens_(std::max<std::uint64_t>(1, batch_ids / trace.info_.choice_size())) {}

  /// The tokens from `first` on, checked.
  Result<TraceBatch> read(std::uint64_t first) {
    const auto count = static_cast<std::size_t>(std::min(batch_tokens_, trace_.num_tokens_ - first));
    tokens_.resize(count);
    experts_.resize(count * trace_.info_.choice_size());
    if (Status s = read_tokens(first); !s) return failure(std::move(s));
    Status s = is_wide_ ? read_experts(first, wide_) : read_experts(first, narrow_);
    if (!s) return failure(std::move(s));
    if (Status sound = check_choices(first); !sound) return failure(std::move(sound));
    return TraceBatch{tokens_, experts_};
  }

 private:
  Status read_tokens(std::uint64_t first) {
    const std::size_t count = tokens_.size();
    request_.resize(count);
    position_.resize(count);
    phase_.resize(count);
    if (Status s = read_column(trace_.file_, *trace_.tensors_.request, first, std::span(request_)); !s)
      return s;
    if (Status s = read_column(trace_.file_, *trace_.tensors_.position, first, std::span(position_)); !s)
      return s;
    if (Status s = read_column(trace_.file_, *trace_.tensors_.phase, first, std::span(phase_)); !s) return s;
    for (std::size_t i = 0; i < count; ++i) {
      if (phase_[i] >= num_trace_phases) {
        return bad(trace_.file_,
                   fmt::format("token {}: phase {} is not 0 (prefill) or 1 (decode)", first + i, phase_[i]));
      }
      tokens_[i] = {static_cast<TracePhase>(phase_[i]), request_[i], position_[i]};
    }
    return {};
  }

  template <class Int>
  Status read_experts(std::uint64_t first, std::vector<Int>& ids) {
    ids.resize(experts_.size());
    const std::uint64_t first_id = first * trace_.info_.choice_size();
    if (Status s = read_column(trace_.file_, *trace_.tensors_.experts, first_id, std::span(ids)); !s)
      return s;
    std::ranges::transform(ids, experts_.begin(), [](Int id) { return ExpertId{id}; });
    return {};
  }

  Status check_choices(std::uint64_t first) {
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      const std::string problem = check_.problem_of(experts_.data() + i * trace_.info_.choice_size());
      if (!problem.empty()) return bad(trace_.file_, fmt::format("token {}, {}", first + i, problem));
    }
    return {};
  }

  const TraceFile& trace_;
  bool is_wide_;
  ChoiceCheck check_;
  std::uint64_t batch_tokens_;
  std::vector<std::uint32_t> request_;
  std::vector<std::uint32_t> position_;
  std::vector<std::uint8_t> phase_;
  std::vector<std::uint8_t> narrow_;
  std::vector<std::uint16_t> wide_;
  std::vector<TraceToken> tokens_;
  std::vector<ExpertId> experts_;
};

TraceFile::TraceFile(SafetensorsFile file, TraceInfo info, Tensors tensors)
    : file_(std::move(file)),
      info_(std::move(info)),
      tensors_(tensors),
      num_tokens_(tensors.experts->shape[0]) {}

Result<TraceFile> TraceFile::open(const std::string& path) {
  Result<SafetensorsFile> file = SafetensorsFile::open(path);
  if (!file) return failure(std::move(file));
  if (Status s = check_format(*file); !s) return failure(std::move(s));
  auto experts = tensor_of(*file, trace_experts_name, 3);
  if (!experts) return failure(std::move(experts));
  Result<TraceInfo> info = read_info(*file, **experts);
  if (!info) return failure(std::move(info));
  if (Status s = check_experts(*file, **experts, *info); !s) return failure(std::move(s));
  Tensors tensors{nullptr, nullptr, *experts, nullptr};
  for (const auto& [name, type, column] :
       {std::tuple(trace_request_name, SafetensorsType::u32, &tensors.request),
        std::tuple(trace_position_name, SafetensorsType::u32, &tensors.position),
        std::tuple(trace_phase_name, SafetensorsType::u8, &tensors.phase)}) {
    auto found = column_of(*file, name, type, (*experts)->shape[0]);
    if (!found) return failure(std::move(found));
    *column = *found;
  }
  return TraceFile(*std::move(file), *std::move(info), tensors);
}

Status TraceFile::scan(const Visit& visit, const ReadProgress& progress) const {
  Reader reader(*this);
  std::uint64_t done = 0;
  while (done < num_tokens_) {
    Result<TraceBatch> batch = reader.read(done);
    if (!batch) return failure(std::move(batch));
    visit(*batch);
    done += batch->tokens.size();
    const std::uint64_t total_bytes = tensors_.experts->size_bytes();
    if (progress) progress(done * (total_bytes / num_tokens_), total_bytes);
  }
  return {};
}

}  // namespace trimtab
