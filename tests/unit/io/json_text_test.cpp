// SPDX-License-Identifier: Apache-2.0
#include "io/json_text.hpp"

#include "io/input_kind.hpp"
#include "unit/io/temporary_folder.hpp"
#include "unit/weights/raw_safetensors.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace trimtab::test {
namespace {

TEST(JsonText, NamesAMissingFile) {
  const TemporaryFolder folder;
  const auto text = JsonText::read(folder.file("none.json"));
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, Errc::not_found);
  EXPECT_EQ(text.error().message, folder.file("none.json") + ": cannot be read: No such file or directory");
}

TEST(JsonText, RefusesAFolder) {
  const TemporaryFolder folder;
  const auto text = JsonText::read(folder.file(""));
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, Errc::io);
  EXPECT_EQ(text.error().message, folder.file("") + ": cannot be read: Is a directory");
}

TEST(JsonText, RefusesAnEmptyFile) {
  const TemporaryFolder folder;
  const auto text = JsonText::read(folder.write("a.json", ""));
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, Errc::invalid_argument);
  EXPECT_EQ(text.error().message, folder.file("a.json") + ": empty file");
}

TEST(JsonText, ReadsAFileOfSeveralPiecesAndTellsHowFarItIs) {
  const TemporaryFolder folder;
  const std::string content(std::size_t{20} << 20, 'x');
  std::vector<std::pair<std::uint64_t, std::uint64_t>> seen;
  const auto text =
      JsonText::read(folder.write("a.json", content),
                     [&](std::uint64_t done, std::uint64_t total) { seen.emplace_back(done, total); });
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_TRUE(text->view() == content);
  ASSERT_GE(seen.size(), 3U);
  for (const auto& [done, total] : seen) EXPECT_EQ(total, content.size());
  EXPECT_TRUE(std::ranges::is_sorted(seen));
  EXPECT_EQ(seen.back().first, content.size());
}

TEST(JsonText, ReadsAPipeWhoseLengthIsNotKnown) {
  const TemporaryFolder folder;
  const std::string path = folder.file("pipe");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const std::string content(std::size_t{3} << 20, 'y');
  std::thread writer([&] { folder.write("pipe", content); });
  const auto text = JsonText::read(path);
  writer.join();
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_TRUE(text->view() == content);
}

TEST(InputKind, IsToldByTheKey) {
  const auto kind = [](std::string_view text) { return find_input_kind(JsonText::copy_of("a", text)); };
  EXPECT_EQ(kind(R"({"logical_count": [[1]]})"), InputKind::loads);
  EXPECT_EQ(kind(R"({"physical_to_logical_map": [[0]]})"), InputKind::placement);
  EXPECT_EQ(kind(R"({"physical_to_logical_map": [[0]], "logical_count": [[1]]})"), InputKind::loads);
  EXPECT_EQ(kind("nonsense"), InputKind::loads);
}

TEST(InputKind, SafetensorsAreToldByTheirFirstBytes) {
  const TemporaryFolder folder;
  const auto is = [&](std::string_view bytes) { return is_safetensors(folder.write("a", bytes)); };
  EXPECT_TRUE(is(raw_safetensors("{}", "")));
  EXPECT_TRUE(is(raw_safetensors(100'000'000, "{", "")));
  EXPECT_FALSE(is(raw_safetensors(100'000'001, "{", "")));
  EXPECT_FALSE(is(raw_safetensors("[]", "")));
  EXPECT_FALSE(is(raw_safetensors(" {}", "")));
  EXPECT_FALSE(is(raw_safetensors(2, "", "")));
  EXPECT_FALSE(is(R"({"logic":{"logical_count": [[1]]}})"));  // The ninth byte is the same.
  EXPECT_FALSE(is(""));
  EXPECT_FALSE(is_safetensors(folder.file("none")));
  EXPECT_FALSE(is_safetensors(folder.file("")));
  ASSERT_EQ(::mkfifo(folder.file("pipe").c_str(), 0600), 0);
  EXPECT_FALSE(is_safetensors(folder.file("pipe")));  // Does not wait for a writer either.
}

}  // namespace
}  // namespace trimtab::test
