// SPDX-License-Identifier: Apache-2.0
#include "app/commands.hpp"
#include "app/outputs.hpp"
#include "io/generate.hpp"
#include "io/load_file.hpp"

#include <map>
#include <memory>
#include <string>
#include <utility>

namespace trimtab {
namespace {

struct GenerateArguments {
  GenerateOptions options;
  std::string output;
  std::string json;
};

nlohmann::ordered_json document_of(const GenerateOptions& o) {
  return {{"schema", "trimtab.generate/1"},
          {"layers", o.num_layers},
          {"dense_layers", o.num_dense_layers},
          {"experts", o.num_experts},
          {"steps", o.num_phases},
          {"distribution", to_string(o.distribution)},
          {"sigma", o.sigma},
          {"exponent", o.exponent},
          {"outliers", o.num_outliers},
          {"drift", o.drift},
          {"tokens", o.tokens},
          {"top_k", o.top_k},
          {"seed", o.seed}};
}

Outcome run_generate(const GenerateArguments& args) {
  if (is_same_file(args.output, args.json)) usage_error("--json", "names the same file as -o");
  Result<std::vector<LoadMatrix>> phases = generate_loads(args.options);
  if (!phases) usage_error(phases.error().message);
  Outputs outputs;
  if (Status s = outputs.add(args.output, format_loads(*phases)); !s) return failure(std::move(s));
  if (Status s = outputs.add(args.json, document_of(args.options)); !s) return failure(std::move(s));
  if (Status s = outputs.commit(); !s) return failure(std::move(s));
  return ExitStatus::ok;
}

void add_shape_options(CLI::App& verb, GenerateOptions& options) {
  verb.add_option("--layers", options.num_layers, "Rows, dense ones included")
      ->type_name("N")
      ->capture_default_str();
  verb.add_option("--dense-layers", options.num_dense_layers,
                  "How many of the first rows are dense (all zero)")
      ->type_name("N")
      ->capture_default_str();
  verb.add_option("--experts", options.num_experts, "Logical experts per layer")
      ->type_name("N")
      ->capture_default_str();
  verb.add_option("--steps", options.num_phases,
                  "Steps; with more than one the file is [steps][layers][experts]")
      ->type_name("N")
      ->capture_default_str();
  verb.add_option("--tokens", options.tokens, "Tokens per layer and step")
      ->type_name("N")
      ->capture_default_str();
  verb.add_option("--top-k", options.top_k, "Experts per token; loads of a layer sum to tokens * top-k")
      ->type_name("N")
      ->capture_default_str();
}

void add_spread_options(CLI::App& verb, GenerateOptions& options) {
  static const std::map<std::string, Distribution> distributions{{"lognormal", Distribution::lognormal},
                                                                 {"zipf", Distribution::zipf}};
  verb.add_option_function<std::string>(
          "--distribution", [&](const std::string& name) { options.distribution = distributions.at(name); },
          "lognormal (close to real models) or zipf")
      ->check(CLI::IsMember(&distributions))
      ->option_text("NAME");
  verb.add_option("--sigma", options.sigma, "Standard deviation of the logarithm (lognormal)")
      ->type_name("N")
      ->capture_default_str();
  verb.add_option("--exponent", options.exponent, "Exponent of the power law (zipf)")
      ->type_name("N")
      ->capture_default_str();
  verb.add_option("--outliers", options.num_outliers, "Experts per layer at 10 to 13 times the mean load")
      ->type_name("N")
      ->capture_default_str();
  verb.add_option("--drift", options.drift, "Change from step to step: 0 none, 1 everything drawn anew")
      ->type_name("N")
      ->capture_default_str();
  verb.add_option("--seed", options.seed, "Same seed, same bytes, on every machine")
      ->check(CLI::NonNegativeNumber.description(""))
      ->type_name("N")
      ->capture_default_str();
}

}  // namespace

CLI::App* add_generate_command(CLI::App& app, Outcome& outcome) {
  auto args = std::make_shared<GenerateArguments>();
  CLI::App* verb = app.add_subcommand("generate", "Make expert loads to try things with");
  add_shape_options(*verb, args->options);
  add_spread_options(*verb, args->options);
  verb->add_option("--json", args->json, "Write the parameters as trimtab.generate/1; - is standard output")
      ->type_name("FILE|-");
  verb->add_option("-o,--output", args->output, "Write the loads; - is standard output")
      ->required()
      ->type_name("FILE|-");
  verb->callback([args, &outcome] { outcome = run_generate(*args); });
  return verb;
}

}  // namespace trimtab
