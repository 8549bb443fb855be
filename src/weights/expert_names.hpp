// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/core/result.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace trimtab {

/// A tensor's name, taken apart. `tensor` points into the name.
struct ExpertTensorName {
  LayerId layer;
  ExpertId expert;
  std::string_view tensor;
};

/// "model.layers.{layer}.mlp.experts.{expert}.{tensor}": makes names and takes them apart.
class ExpertNames {
 public:
  /// @return `invalid_argument` unless each of the three is there once, {tensor} behind the others, and no
  ///         digit touches a number: names could then not be taken apart.
  static Result<ExpertNames> make(const std::string& pattern);

  [[nodiscard]] std::string name(LayerId layer, ExpertId expert, std::string_view tensor) const;
  /// Nothing for a name of another form, as of every other tensor of the model.
  [[nodiscard]] std::optional<ExpertTensorName> match(std::string_view name) const;

 private:
  std::string before_;   ///< The first number.
  std::string between_;  ///< The numbers.
  std::string behind_;   ///< The second number, before the tensor.
  std::string suffix_;
  bool is_layer_first_ = true;
};

}  // namespace trimtab
