// SPDX-License-Identifier: Apache-2.0
#include "report/table.hpp"

#include <trimtab/core/assert.hpp>

#include <algorithm>
#include <utility>

namespace trimtab {
namespace {

constexpr std::size_t gap = 2;

std::string padded(const std::string& cell, std::size_t width, Table::Align align) {
  const std::string blanks(width - cell.size(), ' ');
  return align == Table::Align::left ? cell + blanks : blanks + cell;
}

}  // namespace

void Table::add_column(std::string header, Align align) {
  if (rows_.empty()) rows_.emplace_back();
  rows_.front().push_back(std::move(header));
  aligns_.push_back(align);
}

void Table::add_row(std::vector<std::string> cells) {
  TRIMTAB_ASSERT(cells.size() == aligns_.size());
  rows_.push_back(std::move(cells));
}

void Table::add_rule() { rows_.emplace_back(); }

std::vector<std::size_t> Table::widths() const {
  std::vector<std::size_t> widths(aligns_.size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  return widths;
}

std::string Table::to_string() const {
  const std::vector<std::size_t> width = widths();
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < width.size(); ++i) {
      if (i > 0) line.append(gap, ' ');
      line += row.empty() ? std::string(width[i], '-') : padded(row[i], width[i], aligns_[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

}  // namespace trimtab
