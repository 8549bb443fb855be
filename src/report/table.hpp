// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace trimtab {

/// Text in aligned columns: words to the left, numbers to the right, units in the headers.
class Table {
 public:
  enum class Align { left, right };

  void add_column(std::string header, Align align = Align::right);
  /// Precondition: one cell for each column.
  void add_row(std::vector<std::string> cells);
  /// A line between the rows so far and the summary rows that follow.
  void add_rule();

  /// Each line ends with a newline and has no trailing blanks.
  [[nodiscard]] std::string to_string() const;

 private:
  [[nodiscard]] std::vector<std::size_t> widths() const;

  std::vector<Align> aligns_;
  std::vector<std::vector<std::string>> rows_;  // The headers first; an empty row is a rule.
};

}  // namespace trimtab
