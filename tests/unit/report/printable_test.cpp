// SPDX-License-Identifier: Apache-2.0
#include "report/printable.hpp"

#include <gtest/gtest.h>

#include <array>

namespace trimtab {
namespace {

TEST(AsUtf8, KeepsWhatIsValid) {
  const std::string text = "a\n\xc3\xa4 \xe4\xb8\xad \xf0\x9f\x98\x80";
  EXPECT_EQ(as_utf8(text), text);
}

TEST(AsUtf8, ReplacesWhatIsNone) {
  EXPECT_EQ(as_utf8("a\xff"
                    "b"),
            "a\xef\xbf\xbd"
            "b");
  EXPECT_EQ(as_utf8("\xe4\xb8"), "\xef\xbf\xbd\xef\xbf\xbd");           // Cut off.
  EXPECT_EQ(as_utf8("\xc0\x80"), "\xef\xbf\xbd\xef\xbf\xbd");           // Longer than need be.
  EXPECT_EQ(as_utf8("\xed\xa0\x80").substr(0, 3), "\xef\xbf\xbd");      // Half of a pair.
  EXPECT_EQ(as_utf8("\xf4\x90\x80\x80").substr(0, 3), "\xef\xbf\xbd");  // Beyond the last.
}

TEST(LastColumns, IsOneLineOfTheEnd) {
  EXPECT_EQ(last_columns("one\n\ttwo  three", 100), "one two three");
  EXPECT_EQ(last_columns("one two three", 5), "three");
  EXPECT_EQ(last_columns("", 5), "");
}

TEST(LastColumns, LetsNoTerminalObey) {
  EXPECT_EQ(last_columns("a\033[2Jb\x7f"
                         "c",
                         100),
            "a [2Jb c");
  EXPECT_EQ(last_columns("a\xc2\x9b"
                         "b",
                         100),
            "a b");  // The same in one character.
}

TEST(LastColumns, CountsWideCharactersTwice) {
  const std::string text = "x\xe4\xb8\xad\xe6\x96\x87";
  EXPECT_EQ(last_columns(text, 5), text);
  EXPECT_EQ(last_columns(text, 4), "\xe4\xb8\xad\xe6\x96\x87");
  EXPECT_EQ(last_columns(text, 3), "\xe6\x96\x87");
}

TEST(Bars, ShowPartsOfTheLargest) {
  EXPECT_EQ(bars(std::array{0.0, 7.0, 4.0}), "▁█▅");
  EXPECT_EQ(bars(std::array{0.0, 0.0}), "▁▁");
  EXPECT_EQ(bars({}), "");
}

}  // namespace
}  // namespace trimtab
