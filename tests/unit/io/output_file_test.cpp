// SPDX-License-Identifier: Apache-2.0
#include "io/output_file.hpp"

#include "unit/io/temporary_folder.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <utility>

namespace trimtab::test {
namespace {

TEST(OutputFile, AppearsAtCommit) {
  const TemporaryFolder folder;
  auto file = OutputFile::stage(folder.file("a.json"), "content");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_FALSE(std::filesystem::exists(folder.file("a.json")));
  ASSERT_TRUE(file->commit());
  EXPECT_EQ(folder.read("a.json"), "content");
  EXPECT_EQ(folder.num_entries(), 1U);
}

TEST(OutputFile, LeavesNothingWhenNotCommitted) {
  const TemporaryFolder folder;
  folder.write("a.json", "before");
  {
    auto file = OutputFile::stage(folder.file("a.json"), "after");
    ASSERT_TRUE(file) << file.error().message;
    const OutputFile moved = std::move(*file);
  }
  EXPECT_EQ(folder.read("a.json"), "before");
  EXPECT_EQ(folder.num_entries(), 1U);
}

TEST(OutputFile, KeepsPermissionsAndLinksOfWhatItReplaces) {
  const TemporaryFolder folder;
  std::filesystem::permissions(folder.write("real.json", "before"), std::filesystem::perms::owner_all);
  std::filesystem::create_symlink("real.json", folder.file("link.json"));
  auto file = OutputFile::stage(folder.file("link.json"), "after");
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_TRUE(file->commit());
  EXPECT_TRUE(std::filesystem::is_symlink(folder.file("link.json")));
  EXPECT_EQ(folder.read("real.json"), "after");
  EXPECT_EQ(std::filesystem::status(folder.file("real.json")).permissions(),
            std::filesystem::perms::owner_all);
}

TEST(OutputFile, WritesThroughADeviceInsteadOfReplacingIt) {
  auto file = OutputFile::stage("/dev/null", "content");
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_TRUE(file->commit());
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST(OutputFile, NamesAFolderThatIsNotThere) {
  const TemporaryFolder folder;
  const auto file = OutputFile::stage(folder.file("none/a.json"), "content");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, Errc::io);
  EXPECT_EQ(file.error().message,
            folder.file("none/a.json") + ": cannot be written: No such file or directory");
}

TEST(OutputFile, RefusesAFolder) {
  const TemporaryFolder folder;
  const auto file = OutputFile::stage(folder.file(""), "content");
  ASSERT_FALSE(file);
  EXPECT_EQ(folder.num_entries(), 0U);
}

TEST(OutputFile, ReportsAFullDevice) {
  auto file = OutputFile::stage("/dev/full", "content");
  ASSERT_TRUE(file) << file.error().message;
  const Status done = file->commit();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message, "/dev/full: cannot be written: No space left on device");
}

}  // namespace
}  // namespace trimtab::test
