// SPDX-License-Identifier: Apache-2.0
#include "report/table.hpp"

#include <gtest/gtest.h>

namespace trimtab::test {
namespace {

TEST(Table, AlignsWordsLeftAndNumbersRight) {
  Table table;
  table.add_column("name", Table::Align::left);
  table.add_column("time [ms]");
  table.add_row({"a", "1.5"});
  table.add_rule();
  table.add_row({"average", "1234567890.5"});
  EXPECT_EQ(table.to_string(),
            "name        time [ms]\n"
            "a                 1.5\n"
            "-------  ------------\n"
            "average  1234567890.5\n");
}

TEST(Table, LeavesNoTrailingBlanks) {
  Table table;
  table.add_column("a");
  table.add_column("long header", Table::Align::left);
  table.add_row({"1", "x"});
  EXPECT_EQ(table.to_string(), "a  long header\n1  x\n");
}

}  // namespace
}  // namespace trimtab::test
