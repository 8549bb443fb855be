// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "io/output_file.hpp"

#include <trimtab/core/result.hpp>

#include <nlohmann/json.hpp>

#include <initializer_list>
#include <string>
#include <vector>

namespace trimtab {

/// The files a verb writes: none of them appears before all of them could be written.
class Outputs {
 public:
  /// An empty path is an output that was not asked for.
  /// @return `io` naming the path.
  Status add(const std::string& path, std::string content);
  Status add(const std::string& path, const nlohmann::ordered_json& document);

  Status commit();

 private:
  std::vector<OutputFile> files_;
};

/// True when both paths are given and lead to the same file, or both to standard output.
[[nodiscard]] bool is_same_file(const std::string& a, const std::string& b);

/// True when writing `output` would replace the file `input`; "-" is never replaced.
[[nodiscard]] bool would_replace(const std::string& output, const std::string& input);

}  // namespace trimtab
