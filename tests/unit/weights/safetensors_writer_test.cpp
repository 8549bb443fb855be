// SPDX-License-Identifier: Apache-2.0
#include <trimtab/weights/safetensors_writer.hpp>

#include "unit/io/temporary_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace trimtab::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<SafetensorsEntry> two_tensors() {
  return {{"z", SafetensorsType::u8, {3}}, {"a \"quoted\" ü", SafetensorsType::bf16, {2, 1}}};
}

class SafetensorsWriterTest : public testing::Test {
 protected:
  Status write(std::string_view data) {
    auto writer = SafetensorsWriter::create(path, two_tensors(), {{"key", "value"}});
    if (!writer) return tl::unexpected<Error>(writer.error());
    if (Status done = writer->append(bytes_of(data)); !done) return done;
    return writer->commit();
  }

  TemporaryFolder folder;
  std::string path = folder.file("a.safetensors");
};

TEST_F(SafetensorsWriterTest, WritesWhatTheReaderReads) {
  ASSERT_TRUE(write("1234567"));
  const auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->metadata().at("key"), "value");
  EXPECT_EQ(text_of(file->bytes(*file->find("z"))), "123");
  const SafetensorsTensor* a = file->find("a \"quoted\" ü");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(text_of(file->bytes(*a)), "4567");
  EXPECT_EQ(a->type, SafetensorsType::bf16);
  EXPECT_THAT(a->shape, ElementsAre(2, 1));
  EXPECT_EQ(folder.num_entries(), 1U);
}

TEST_F(SafetensorsWriterTest, DataBeginsAtAMultipleOfEight) {
  for (std::size_t length = 1; length < 12; ++length) {
    auto writer = SafetensorsWriter::create(path, {{std::string(length, 'n'), SafetensorsType::u8, {1}}});
    ASSERT_TRUE(writer && writer->append(bytes_of("x")) && writer->commit());
    EXPECT_EQ((folder.read("a.safetensors").size() - 1) % 8, 0U);
    EXPECT_TRUE(SafetensorsFile::open(path));
  }
}

TEST_F(SafetensorsWriterTest, TakesBytesInAnyPieces) {
  auto writer = SafetensorsWriter::create(path, two_tensors());
  ASSERT_TRUE(writer);
  for (const char c : std::string("1234567")) ASSERT_TRUE(writer->append(bytes_of({&c, 1})));
  ASSERT_TRUE(writer->commit());
  const auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(file);
  EXPECT_EQ(text_of(file->bytes(*file->find("z"))), "123");
}

TEST_F(SafetensorsWriterTest, ReplacesMetadataOfTheSameRoom) {
  auto writer = SafetensorsWriter::create(path, {}, {{"key", "0000"}});
  ASSERT_TRUE(writer);
  EXPECT_EQ(writer->replace_metadata("other", "0000").error().code, Errc::not_found);
  for (const char* value : {"000", "00000", "00\"0", "00\xff"}) {
    EXPECT_EQ(writer->replace_metadata("key", value).error().code, Errc::invalid_argument) << value;
  }
  ASSERT_TRUE(writer->replace_metadata("key", "beef"));
  ASSERT_TRUE(writer->commit());
  const auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(file);
  EXPECT_EQ(file->metadata().at("key"), "beef");
}

TEST_F(SafetensorsWriterTest, RefusesMoreBytesThanTensorsAndFewer) {
  auto writer = SafetensorsWriter::create(path, two_tensors());
  ASSERT_TRUE(writer);
  ASSERT_TRUE(writer->append(bytes_of("123456")));
  const Status more = writer->append(bytes_of("78"));
  ASSERT_FALSE(more);
  EXPECT_THAT(more.error().message, HasSubstr("a.safetensors: 2 bytes more, but the tensors lack 1 of 7"));
  const Status fewer = writer->commit();
  ASSERT_FALSE(fewer);
  EXPECT_THAT(fewer.error().message, HasSubstr("6 of the tensors' 7 bytes were given"));
}

TEST_F(SafetensorsWriterTest, LeavesNothingWhenItIsGivenUp) {
  {
    auto writer = SafetensorsWriter::create(path, two_tensors());
    ASSERT_TRUE(writer && writer->append(bytes_of("1234567")));
  }
  EXPECT_EQ(folder.num_entries(), 0U);
}

TEST_F(SafetensorsWriterTest, AnUnfinishedFileLeavesTheOldOne) {
  ASSERT_TRUE(write("1234567"));
  const std::string before = folder.read("a.safetensors");
  EXPECT_FALSE(write("123"));
  EXPECT_EQ(folder.read("a.safetensors"), before);
  EXPECT_EQ(folder.num_entries(), 1U);
}

/// Writes piece after piece in a process that kills itself before piece `deadline`.
void write_until_killed(const std::string& path, int deadline) {
  auto writer = SafetensorsWriter::create(path, {{"big", SafetensorsType::u8, {4 * 4096}}});
  const std::string piece(4096, 'x');
  for (int i = 0; i < 4; ++i) {
    if (i == deadline) ::kill(::getpid(), SIGKILL);
    if (!writer || !writer->append(bytes_of(piece))) ::_exit(1);
  }
  if (deadline == 4) ::kill(::getpid(), SIGKILL);
  ::_exit(writer->commit() ? 0 : 1);
}

TEST_F(SafetensorsWriterTest, AKilledProcessLeavesNoHalfFileUnderTheName) {
  for (int deadline = 0; deadline <= 5; ++deadline) {
    const pid_t child = ::fork();
    if (child == 0) write_until_killed(path, deadline);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(WIFSIGNALED(status), deadline < 5) << deadline;
    const auto file = SafetensorsFile::open(path);
    if (deadline < 5) {
      ASSERT_FALSE(file) << deadline;
      EXPECT_EQ(file.error().code, Errc::not_found);
    } else {
      ASSERT_TRUE(file) << file.error().message;
      EXPECT_EQ(text_of(file->bytes(file->tensors()[0])), std::string(4 * 4096, 'x'));
    }
  }
}

struct Refusal {
  const char* name;
  std::vector<SafetensorsEntry> entries;
  SafetensorsMetadata metadata;
  const char* message;
};

const std::vector<Refusal> refusals{
    {"NameTwice", {{"a", {}, {1}}, {"b", {}, {1}}, {"a", {}, {1}}}, {}, "tensor 'a' is there twice"},
    {"NameNotUtf8", {{"\xff", {}, {1}}}, {}, "tensor '?' is not valid UTF-8"},
    {"NameReserved", {{"__metadata__", {}, {1}}}, {}, "\"__metadata__\" cannot be a tensor's name"},
    {"ShapeOverflows",
     {{"a", {}, {1ULL << 63, 2}}},
     {},
     "tensor 'a': BOOL x [9223372036854775808, 2] has more"},
    {"MetadataNotUtf8", {}, {{"k", "\xc0"}}, "metadata value '?' is not valid UTF-8"},
};

class SafetensorsRefusals : public testing::TestWithParam<Refusal> {};

TEST_P(SafetensorsRefusals, AreNamedAndWriteNothing) {
  const TemporaryFolder folder;
  const auto writer =
      SafetensorsWriter::create(folder.file("a.safetensors"), GetParam().entries, GetParam().metadata);
  ASSERT_FALSE(writer);
  EXPECT_EQ(writer.error().code, Errc::invalid_argument);
  EXPECT_THAT(writer.error().message, HasSubstr("a.safetensors: "));
  EXPECT_THAT(writer.error().message, HasSubstr(GetParam().message));
  EXPECT_EQ(folder.num_entries(), 0U);
}

INSTANTIATE_TEST_SUITE_P(All, SafetensorsRefusals, testing::ValuesIn(refusals),
                         [](const auto& refusal) { return std::string(refusal.param.name); });

TEST_F(SafetensorsWriterTest, SaysWhyAFolderCannotBeWritten) {
  const auto writer = SafetensorsWriter::create(folder.file("none/a.safetensors"), {});
  ASSERT_FALSE(writer);
  EXPECT_EQ(writer.error().code, Errc::io);
  EXPECT_THAT(writer.error().message, HasSubstr("cannot be written: No such file"));
}

TEST(SafetensorsIndex, ComesBack) {
  const TemporaryFolder folder;
  SafetensorsIndex index;
  index.file_of = {{"a", "one.safetensors"}, {"b", "two.safetensors"}};
  index.total_bytes = 77;
  ASSERT_TRUE(index.write(folder.file("index.json")));
  const auto back = SafetensorsIndex::read(folder.file("index.json"));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->file_of, index.file_of);
  EXPECT_EQ(back->total_bytes, 77U);
  EXPECT_EQ(folder.num_entries(), 1U);
}

TEST(SafetensorsIndex, NeedsNoTotal) {
  const TemporaryFolder folder;
  const auto index = SafetensorsIndex::read(folder.write("i", R"({"metadata":{},"weight_map":{"a":"f"}})"));
  ASSERT_TRUE(index) << index.error().message;
  EXPECT_EQ(index->total_bytes, 0U);
}

TEST(SafetensorsIndex, NamesWhatIsWrong) {
  const TemporaryFolder folder;
  const std::vector<std::pair<std::string, std::string>> wrong{
      {"", "not a JSON object"},
      {"[]", "not a JSON object"},
      {"{}", "\"weight_map\" is there 0 times, not once"},
      {R"({"weight_map":{},"weight_map":{}})", "\"weight_map\" is there 2 times"},
      {R"({"weight_map":[]})", "\"weight_map\" is not an object"},
      {R"({"weight_map":{"a":1}})", "tensor 'a': the value is not the name of a file"},
      {R"({"weight_map":{"a":"../secret"}})", "tensor 'a': '../secret' is not the name of a file"},
      {R"({"weight_map":{"a":".."}})", "tensor 'a': '..' is not the name of a file"},
      {R"({"weight_map":{"a":"f","a":"g"}})", "tensor 'a' is there twice"}};
  for (const auto& [text, message] : wrong) {
    const auto index = SafetensorsIndex::read(folder.write("i", text));
    ASSERT_FALSE(index) << text;
    EXPECT_EQ(index.error().code, Errc::invalid_argument) << text;
    EXPECT_THAT(index.error().message, HasSubstr(message));
  }
}

}  // namespace
}  // namespace trimtab::test
