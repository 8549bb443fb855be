// SPDX-License-Identifier: Apache-2.0
#include "app/run_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

namespace trimtab {
namespace {

/// Of the model, in the order of their names: the order in which they prevail.
std::vector<std::string> bundled_texts(const std::string& model) {
  std::vector<std::string> paths;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(model + "/prompts", ignored)) {
    if (entry.path().extension() == ".txt") paths.push_back(entry.path().string());
  }
  std::ranges::sort(paths);
  return paths;
}

Result<moe::TextDomain> read_domain(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return failure(Errc::not_found, path + ": cannot be opened");
  moe::TextDomain domain{std::filesystem::path(path).stem().string(), path, {}};
  domain.text.assign(std::istreambuf_iterator<char>(file), {});
  if (file.bad()) return failure(Errc::io, path + ": cannot be read");
  return domain;
}

moe::TextTraffic make_traffic(const RunOptions& options) {
  moe::TextTraffic traffic;
  traffic.prompt_bytes = static_cast<std::size_t>(options.prompt_bytes);
  traffic.new_bytes = static_cast<std::size_t>(options.new_bytes);
  traffic.sampling = {.temperature = options.temperature, .seed = options.seed};
  traffic.seed = options.seed;
  return traffic;
}

}  // namespace

Result<std::shared_ptr<moe::TextService>> read_text_service(const RunOptions& options) {
  Result<moe::TextModel> model = moe::read_text_model(options.model);
  if (!model) return failure(std::move(model));
  const std::vector<std::string> paths = options.texts.empty() ? bundled_texts(options.model) : options.texts;
  if (paths.empty()) {
    return failure(
        Errc::not_found,
        fmt::format("{}/prompts: no text to take prompts from, and none is named by --text", options.model));
  }
  auto service = std::make_shared<moe::TextService>();
  service->model = std::move(*model);
  service->traffic = make_traffic(options);
  for (const std::string& path : paths) {
    Result<moe::TextDomain> domain = read_domain(path);
    if (!domain) return failure(std::move(domain));
    service->traffic.domains.push_back(std::move(*domain));
  }
  if (Status checked = moe::check_traffic(service->traffic, service->model.config); !checked)
    return failure(std::move(checked));
  return service;
}

}  // namespace trimtab
