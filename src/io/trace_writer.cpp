// SPDX-License-Identifier: Apache-2.0
#include "io/trace_writer.hpp"

#include "io/spool_file.hpp"

#include <trimtab/weights/safetensors_writer.hpp>

#include <fmt/format.h>

#include <span>
#include <utility>
#include <vector>

namespace trimtab {
namespace {

template <class Int>
Status append_numbers(SpoolFile& spool, const std::vector<Int>& numbers) {
  return spool.append(std::as_bytes(std::span(numbers)));
}

/// One number of each token.
template <class Int, class Number>
Status append_column(SpoolFile& spool, std::span<const TraceToken> tokens, Number number_of) {
  std::vector<Int> numbers;
  numbers.reserve(tokens.size());
  for (const TraceToken& token : tokens) numbers.push_back(static_cast<Int>(number_of(token)));
  return append_numbers(spool, numbers);
}

template <class Int>
Status append_ids(SpoolFile& spool, std::span<const ExpertId> experts) {
  std::vector<Int> ids;
  ids.reserve(experts.size());
  for (ExpertId expert : experts) ids.push_back(static_cast<Int>(expert.value()));
  return append_numbers(spool, ids);
}

/// The columns of the file, without a name until it is whole.
struct TraceColumns {
  SpoolFile request;
  SpoolFile position;
  SpoolFile experts;
  SpoolFile phase;

  static Result<TraceColumns> create(const std::string& path) {
    std::vector<SpoolFile> spools;
    for (int i = 0; i < 4; ++i) {
      Result<SpoolFile> spool = SpoolFile::create(path);
      if (!spool) return failure(std::move(spool));
      spools.push_back(*std::move(spool));
    }
    return TraceColumns{std::move(spools[0]), std::move(spools[1]), std::move(spools[2]),
                        std::move(spools[3])};
  }

  Status append(std::span<const TraceToken> tokens) {
    if (Status s = append_column<std::uint32_t>(request, tokens, [](auto& t) { return t.request; }); !s) {
      return s;
    }
    if (Status s = append_column<std::uint32_t>(position, tokens, [](auto& t) { return t.position; }); !s) {
      return s;
    }
    return append_column<std::uint8_t>(phase, tokens, [](auto& t) { return t.phase; });
  }

  /// In the order of the file.
  Status drain(SafetensorsWriter& writer) {
    for (SpoolFile* column : {&request, &position, &experts, &phase}) {
      if (Status s = column->drain([&](auto bytes) { return writer.append(bytes); }); !s) return s;
    }
    return {};
  }
};

/// Wide columns first, so that each begins at a multiple of what its numbers take.
std::vector<SafetensorsEntry> entries_of(const TraceInfo& info, std::uint64_t num_tokens) {
  const std::uint64_t rows = info.layers.size();
  const auto top_k = static_cast<std::uint64_t>(info.top_k);
  return {{std::string(trace_layers_name), SafetensorsType::u32, {rows}},
          {std::string(trace_request_name), SafetensorsType::u32, {num_tokens}},
          {std::string(trace_position_name), SafetensorsType::u32, {num_tokens}},
          {std::string(trace_experts_name), trace_id_type(info.num_experts), {num_tokens, rows, top_k}},
          {std::string(trace_phase_name), SafetensorsType::u8, {num_tokens}}};
}

Status append_layers(SafetensorsWriter& writer, const TraceInfo& info) {
  std::vector<std::uint32_t> layers;
  for (LayerId layer : info.layers) layers.push_back(static_cast<std::uint32_t>(layer.value()));
  return writer.append(std::as_bytes(std::span(layers)));
}

}  // namespace

struct TraceWriter::State {
  State(std::string target, TraceInfo of, TraceColumns empty)
      : path(std::move(target)), info(std::move(of)), check(info), columns(std::move(empty)) {}

  std::string path;
  TraceInfo info;
  ChoiceCheck check;
  TraceColumns columns;
  std::uint64_t num_tokens = 0;

  [[nodiscard]] tl::unexpected<Error> bad(const std::string& problem) const {
    return failure(Errc::invalid_argument, fmt::format("{}: {}", path, problem));
  }

  Status check_batch(std::span<const TraceToken> tokens, std::span<const ExpertId> experts) {
    if (experts.size() != tokens.size() * info.choice_size()) {
      return bad(fmt::format("token {}: {} experts for {} tokens that choose {} each", num_tokens,
                             experts.size(), tokens.size(), info.choice_size()));
    }
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const std::string problem = check.problem_of(experts.data() + i * info.choice_size());
      if (!problem.empty()) return bad(fmt::format("token {}, {}", num_tokens + i, problem));
      if (static_cast<std::uint8_t>(tokens[i].phase) < num_trace_phases) continue;
      return bad(fmt::format("token {}: phase {} is not 0 (prefill) or 1 (decode)", num_tokens + i,
                             static_cast<int>(tokens[i].phase)));
    }
    return {};
  }
};

TraceWriter::TraceWriter(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
TraceWriter::TraceWriter(TraceWriter&&) noexcept = default;
TraceWriter& TraceWriter::operator=(TraceWriter&&) noexcept = default;
TraceWriter::~TraceWriter() = default;

Result<TraceWriter> TraceWriter::create(const std::string& path, TraceInfo info) {
  if (const Status sound = check_trace_info(info); !sound) {
    return failure(Errc::invalid_argument, fmt::format("{}: {}", path, sound.error().message));
  }
  Result<TraceColumns> columns = TraceColumns::create(path);
  if (!columns) return failure(std::move(columns));
  return TraceWriter(std::make_unique<State>(path, std::move(info), *std::move(columns)));
}

Status TraceWriter::append(std::span<const TraceToken> tokens, std::span<const ExpertId> experts) {
  if (Status s = state_->check_batch(tokens, experts); !s) return s;
  if (Status s = state_->columns.append(tokens); !s) return s;
  SpoolFile& ids = state_->columns.experts;
  const bool is_wide = trace_id_type(state_->info.num_experts) == SafetensorsType::u16;
  Status done = is_wide ? append_ids<std::uint16_t>(ids, experts) : append_ids<std::uint8_t>(ids, experts);
  if (done) state_->num_tokens += tokens.size();
  return done;
}

std::uint64_t TraceWriter::num_tokens() const noexcept { return state_->num_tokens; }

Status TraceWriter::commit() {
  if (state_->num_tokens == 0) return state_->bad("no tokens");
  const TraceInfo& info = state_->info;
  Result<SafetensorsWriter> writer =
      SafetensorsWriter::create(state_->path, entries_of(info, state_->num_tokens), trace_metadata(info));
  if (!writer) return failure(std::move(writer));
  if (Status s = append_layers(*writer, info); !s) return s;
  if (Status s = state_->columns.drain(*writer); !s) return s;
  return writer->commit();
}

}  // namespace trimtab
