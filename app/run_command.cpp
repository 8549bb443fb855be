// SPDX-License-Identifier: Apache-2.0
#include "app/commands.hpp"
#include "app/console.hpp"
#include "app/outputs.hpp"
#include "app/run_faults.hpp"
#include "app/run_options.hpp"
#include "app/run_ranks.hpp"
#include "app/share_option.hpp"

#include <fmt/format.h>

#include <memory>
#include <string>

namespace trimtab {
namespace {

void add_traffic_options(CLI::App& verb, RunOptions& options) {
  verb.add_option("--loads", options.loads,
                  "Load files, one phase of the traffic each (default: generated, drifting)")
      ->type_name("FILE...");
  verb.add_option("--layers", options.layers,
                  "Serve rows A to B-1 of the files (default: the first 4 that are not dense)")
      ->type_name("A:B");
  verb.add_option("--tokens", options.tokens,
                  "Tokens per rank and forward (default: 128 per expert over all ranks)")
      ->check(in_range(1, 1 << 20))
      ->type_name("N");
  verb.add_option(
          "--forwards", options.forwards,
          "Forwards of each arm, rounded up to whole blocks: 16 or more (default: 64; with --loads 16)")
      ->check(in_range(1, 1 << 30))
      ->type_name("N");
  verb.add_option("--rebalance-every", options.rebalance_every, "Forwards between two plans")
      ->check(in_range(1, 1 << 30))
      ->type_name("N")
      ->capture_default_str();
  add_share_option(verb, options.shares,
                   "even, or exact: plan for exact shares, and answer shifts by new shares first");
  verb.add_option("--split-every", options.split_every, "Forwards between two changes of shares (default: 1)")
      ->check(in_range(1, 1 << 30))
      ->type_name("N");
  verb.add_option("--seed", options.seed, "Of weights, tokens and generated loads")
      ->type_name("N")
      ->capture_default_str();
}

void add_text_options(CLI::App& verb, RunOptions& options) {
  verb.add_option("--model", options.model,
                  "Serve text by the language model in this folder instead of a generated one")
      ->type_name("FOLDER")
      ->excludes("--loads", "--layers", "--hidden", "--intermediate", "--top-k", "--groups", "--top-groups");
  CLI::Option* model = verb.get_option("--model");
  verb.add_option("--text", options.texts,
                  "Files that prompts are taken from, a domain each, in the order in which they prevail "
                  "(default: those in the model's folder)")
      ->type_name("FILE...")
      ->needs(model);
  verb.add_option("--prompt-bytes", options.prompt_bytes, "Length of a prompt")
      ->check(in_range(1, 1 << 16))
      ->type_name("N")
      ->needs(model)
      ->capture_default_str();
  verb.add_option("--new-bytes", options.new_bytes, "What the model is to say after it")
      ->check(in_range(1, 1 << 16))
      ->type_name("N")
      ->needs(model)
      ->capture_default_str();
  verb.add_option("--temperature", options.temperature, "At which bytes are drawn; 0 takes the likeliest")
      ->check(CLI::NonNegativeNumber)
      ->type_name("X")
      ->needs(model)
      ->capture_default_str();
}

void add_model_options(CLI::App& verb, RunOptions& options) {
  verb.add_option("--hidden", options.hidden, "Width of a token's state")
      ->check(in_range(1, moe::max_width))
      ->type_name("N")
      ->capture_default_str();
  verb.add_option("--intermediate", options.intermediate, "Width inside an expert")
      ->check(in_range(1, moe::max_width))
      ->type_name("N")
      ->capture_default_str();
  verb.add_option("--top-k", options.top_k,
                  "Experts per token (default: 8 from 64 experts on, 4 from 16, else 2)")
      ->check(in_range(1, 1024))
      ->type_name("N");
  verb.add_option("--groups", options.groups, "Expert groups of group-limited routing")
      ->check(in_range(1, 1 << 20))
      ->type_name("N")
      ->capture_default_str();
  verb.add_option("--top-groups", options.top_groups, "Groups a token may use (default: all)")
      ->check(in_range(1, 1 << 20))
      ->type_name("N");
}

void add_cluster_options(CLI::App& verb, RunOptions& options) {
  verb.add_option("--ranks", options.ranks,
                  "Ranks (default: as many as cores, 2 to 8; with mpi what the launcher started)")
      ->check(in_range(1, 1024))
      ->type_name("N");
  verb.add_option("--slots-per-rank", options.slots_per_rank,
                  "Physical slots per rank and layer (default: 1/8 more than needed)")
      ->check(in_range(1, 1 << 20))
      ->type_name("N");
  verb.add_option("--nodes", options.nodes, "Nodes that the ranks lie on")
      ->check(in_range(1, 1024))
      ->type_name("N")
      ->capture_default_str();
  verb.add_option(
          "--transport", options.transport,
          "inproc: ranks are threads; mpi: processes under mpirun; ucx: processes, started here or by a "
          "launcher")
      ->check(CLI::IsMember({"inproc", "mpi", "ucx"}))
      ->option_text("NAME")
      ->capture_default_str();
  verb.add_option("--deadline-ms", options.deadline_ms,
                  "How long a rank waits for another before the run fails")
      ->check(in_range(1, 3'600'000))
      ->type_name("N")
      ->capture_default_str();
}

void add_fault_options(CLI::App& verb, RunOptions& options) {
  verb.add_option("--layout", options.layout,
                  "How experts' matrices lie: dense, or nz (fractal NZ, blocks of 16 rows x 32 bytes)")
      ->check(CLI::IsMember({"dense", "nz"}))
      ->option_text("NAME")
      ->capture_default_str();
  verb.add_option(
          "--inject-fault", options.faults,
          "corrupt:N, drop:N, delay:N or delay:N:MS: what happens to transfer N (from 0); kill:RANK, "
          "stop:RANK or cut:RANK: that rank dies, is stopped or is cut off halfway, and the on arm goes "
          "on without it; repeatable")
      ->allow_extra_args(false)
      ->type_name("SPEC");
  verb.add_option(
          "--checkpoint", options.checkpoint,
          "Folder shared by all ranks, for what the experts of lost ranks come back from: the on arm goes "
          "on without ranks that are lost (default: a temporary one, for a rank that is to be)")
      ->type_name("FOLDER");
  verb.add_option("--migration-deadline-ms", options.migration_deadline_ms,
                  "How long a step waits before it is rolled back (default: as --deadline-ms; with "
                  "--inject-fault at most 2000)")
      ->check(in_range(1, 3'600'000))
      ->type_name("N");
  verb.add_option("--staging-budget", options.staging_budget_bytes,
                  "Memory per rank in which arriving weights wait (default: room for all slots)")
      ->transform(CLI::AsSizeValue(true).description(""))
      ->type_name("BYTES");
  verb.add_option("--stall-budget-ms", options.stall_budget_ms,
                  "How long one step may stop a rank, by the rate measured so far (default: no limit)")
      ->check(CLI::PositiveNumber)
      ->type_name("MS");
  verb.add_option("--mutant", options.mutant, "Migrate wrongly on purpose: the outputs must then differ")
      ->check(CLI::IsMember({"wrong-scale", "table-before-weights"}))
      ->option_text("NAME");
}

void check_rank_fault(const RunOptions& options) {
  const auto fault = parse_rank_fault(options.faults);
  if (!fault) usage_error("--inject-fault", fault.error().message);
  if (!options.model.empty() && *fault)
    usage_error("--inject-fault", fmt::format("{} does not go with --model", to_string((*fault)->kind)));
  if (!options.model.empty() && !options.checkpoint.empty())
    usage_error("--checkpoint", "does not go with --model");
  if (options.transport == "mpi" && *fault)
    usage_error("--inject-fault",
                fmt::format("{} needs --transport inproc or ucx", to_string((*fault)->kind)));
  if (options.transport == "inproc" && *fault && (*fault)->kind != RankFaultKind::kill)
    usage_error("--inject-fault", fmt::format("{} needs --transport ucx", to_string((*fault)->kind)));
  if (options.transport == "mpi" && !options.checkpoint.empty())
    usage_error("--checkpoint", "needs --transport inproc or ucx: no rank of an MPI job outlives another");
}

void check_usage(const RunOptions& options) {
  if (options.staging_budget_bytes == 0U) usage_error("--staging-budget", "0 < 1");
  if (const auto faults = parse_faults(options.faults, Clock::duration{}); !faults) {
    usage_error("--inject-fault", faults.error().message);
  }
  check_rank_fault(options);
  if (!options.layers.empty() && options.loads.empty()) usage_error("--layers", "needs --loads");
  for (const std::string& path : options.texts) {
    if (is_same_file(options.json, path)) usage_error("--json", "names a file that is read");
  }
  for (const std::string& path : options.loads) {
    if (is_same_file(options.json, path)) usage_error("--json", "names a file that is read");
  }
  if (options.split_every && options.shares == ShareMode::even) {
    usage_error("--split-every", "needs --split exact");
  }
  if (options.ranks && options.nodes > *options.ranks) {
    usage_error("--nodes", fmt::format("{} nodes for {} ranks", options.nodes, *options.ranks));
  }
}

Outcome run_service(const RunOptions& options) {
  check_usage(options);
  if (options.transport == "mpi") return run_mpi(options);
  return options.transport == "ucx" ? run_ucx(options) : run_inproc(options);
}

}  // namespace

CLI::App* add_run_command(CLI::App& app, Outcome& outcome) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* verb = app.add_subcommand(
      "run",
      "Serve the same token stream with balancing off and on, live, and compare speed and every output bit");
  add_traffic_options(*verb, *options);
  add_cluster_options(*verb, *options);
  add_model_options(*verb, *options);
  add_text_options(*verb, *options);
  add_fault_options(*verb, *options);
  verb->add_option("--json", options->json, "Write the document trimtab.run/1; - is standard output")
      ->type_name("FILE|-");
  verb->callback([options, &outcome] { outcome = run_service(*options); });
  return verb;
}

}  // namespace trimtab
