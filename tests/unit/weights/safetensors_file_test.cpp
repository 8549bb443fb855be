// SPDX-License-Identifier: Apache-2.0
#include <trimtab/weights/safetensors.hpp>

#include "unit/io/temporary_folder.hpp"
#include "unit/weights/raw_safetensors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <array>
#include <filesystem>

namespace trimtab::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class SafetensorsFileTest : public testing::Test {
 protected:
  Result<SafetensorsFile> open(std::string_view content) {
    return SafetensorsFile::open(folder.write("a.safetensors", content));
  }

  TemporaryFolder folder;
};

TEST_F(SafetensorsFileTest, FindsTensorsByName) {
  const auto file = open(raw_safetensors(
      R"({"__metadata__":{"made":"by hand"},"b":{"dtype":"F32","shape":[1,2],"data_offsets":[3,11]},)"
      R"("a":{"data_offsets":[0,3],"shape":[3],"dtype":"I8","later":{"x":[null]}}}   )",
      "abc12345678"));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->tensors().size(), 2U);
  EXPECT_EQ(file->metadata().at("made"), "by hand");
  const SafetensorsTensor* b = file->find("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->type, SafetensorsType::f32);
  EXPECT_THAT(b->shape, ElementsAre(1, 2));
  EXPECT_EQ(text_of(file->bytes(*b)), "12345678");
  EXPECT_EQ(text_of(file->bytes(*file->find("a"))), "abc");
  EXPECT_EQ(file->find("c"), nullptr);
}

TEST_F(SafetensorsFileTest, ReadsPartsOfATensor) {
  const auto file =
      open(raw_safetensors(R"({"a":{"dtype":"U8","shape":[6],"data_offsets":[0,6]}})", "abcdef"));
  ASSERT_TRUE(file) << file.error().message;
  std::array<std::byte, 3> bytes{};
  ASSERT_TRUE(file->read(file->tensors()[0], 2, bytes));
  EXPECT_EQ(text_of(bytes), "cde");
  const Status beyond = file->read(file->tensors()[0], 4, bytes);
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().code, Errc::invalid_argument);
  EXPECT_THAT(beyond.error().message, HasSubstr("tensor 'a': 3 bytes from 4 on, but it has 6"));
}

TEST_F(SafetensorsFileTest, TakesScalarsEmptyTensorsAndPackedTypes) {
  const auto file = open(raw_safetensors(R"({"none":{"dtype":"F64","shape":[0,7],"data_offsets":[0,0]},)"
                                         R"("scalar":{"dtype":"I16","shape":[],"data_offsets":[0,2]},)"
                                         R"("packed":{"dtype":"F4","shape":[2,3],"data_offsets":[2,5]}})",
                                         "12345"));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->find("none")->size_bytes(), 0U);
  EXPECT_EQ(text_of(file->bytes(*file->find("scalar"))), "12");
  EXPECT_EQ(text_of(file->bytes(*file->find("packed"))), "345");
}

TEST_F(SafetensorsFileTest, TakesAFileWithoutTensors) {
  const auto file = open(raw_safetensors("{}", ""));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_TRUE(file->tensors().empty());
}

TEST_F(SafetensorsFileTest, ATruncatedFileIsAnErrorOfRead) {
  const std::string content = raw_safetensors(
      R"({"a":{"dtype":"U8","shape":[60000],"data_offsets":[0,60000]}})", std::string(60000, 'x'));
  const auto file = open(content);
  ASSERT_TRUE(file) << file.error().message;
  std::filesystem::resize_file(file->path(), content.size() - 20000);
  std::vector<std::byte> bytes(60000);
  const Status done = file->read(file->tensors()[0], 0, bytes);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Errc::io);
  EXPECT_THAT(done.error().message, HasSubstr("20000 bytes too early: it was cut off (in tensor 'a')"));
}

TEST(SafetensorsFile, SaysWhyItCannotBeOpened) {
  const TemporaryFolder folder;
  const auto missing = SafetensorsFile::open(folder.file("none"));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Errc::not_found);
  EXPECT_THAT(missing.error().message, HasSubstr("/none: cannot be read: No such file"));
  const auto directory = SafetensorsFile::open(folder.file(""));
  ASSERT_FALSE(directory);
  EXPECT_EQ(directory.error().code, Errc::io);
  ASSERT_EQ(::mkfifo(folder.file("pipe").c_str(), 0600), 0);
  const auto pipe = SafetensorsFile::open(folder.file("pipe"));
  ASSERT_FALSE(pipe);
  EXPECT_THAT(pipe.error().message, HasSubstr("not a regular file"));
}

TEST(SafetensorsTypes, HaveTheSizesOfTheFormat) {
  const auto bytes = [](SafetensorsType type, std::vector<std::uint64_t> shape) {
    return tensor_bytes(type, shape);
  };
  EXPECT_EQ(*bytes(SafetensorsType::boolean, {3}), 3U);
  EXPECT_EQ(*bytes(SafetensorsType::f8_e4m3, {3, 2}), 6U);
  EXPECT_EQ(*bytes(SafetensorsType::bf16, {3}), 6U);
  EXPECT_EQ(*bytes(SafetensorsType::c64, {3}), 24U);
  EXPECT_EQ(*bytes(SafetensorsType::u64, {}), 8U);
  EXPECT_EQ(*bytes(SafetensorsType::f6_e2m3, {4}), 3U);
  EXPECT_FALSE(bytes(SafetensorsType::f6_e2m3, {3}));
  EXPECT_FALSE(bytes(SafetensorsType::u8, {1ULL << 32, 1ULL << 32}));
  EXPECT_FALSE(bytes(SafetensorsType::u8, {0, 1ULL << 63, 1ULL << 63}));
}

/// A name and a size for each, as the format's page lists them.
TEST(SafetensorsTypes, AllAreRead) {
  const TemporaryFolder folder;
  for (const auto& [name, bits] : std::vector<std::pair<std::string, std::uint64_t>>{
           {"BOOL", 8},    {"F4", 4},          {"F6_E2M3", 6},     {"F6_E3M2", 6}, {"U8", 8},   {"I8", 8},
           {"F8_E5M2", 8}, {"F8_E4M3", 8},     {"F8_E8M0", 8},     {"I16", 16},    {"U16", 16}, {"F16", 16},
           {"BF16", 16},   {"F8_E5M2FNUZ", 8}, {"F8_E4M3FNUZ", 8}, {"I32", 32},    {"U32", 32}, {"F32", 32},
           {"C64", 64},    {"F64", 64},        {"I64", 64},        {"U64", 64}}) {
    const std::string header = R"({"a":{"dtype":")" + name + R"(","shape":[2,2],"data_offsets":[0,)" +
                               std::to_string(bits / 2) + "]}}";
    const auto file =
        SafetensorsFile::open(folder.write("a", raw_safetensors(header, std::string(bits / 2, 'x'))));
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(to_string(file->tensors()[0].type), name);
    EXPECT_EQ(bits_of(file->tensors()[0].type), bits);
  }
}

struct Lie {
  const char* name;
  std::string content;
  const char* message;
};

std::string one(std::string_view tensor, std::string_view data = "12345678") {
  return raw_safetensors(R"({"a":)" + std::string(tensor) + "}", data);
}

const std::vector<Lie> lies{
    {"Empty", "", "0 bytes < 8, the length of the header"},
    {"ShorterThanLength", "1234567", "7 bytes < 8"},
    {"HeaderBeyondFile", raw_safetensors(3, "{}", ""), "a header of 3 bytes > 2, the rest of the file"},
    {"HeaderBeyondLimit", raw_safetensors(100000001, "{}", ""), "a header of 100000001 bytes > 100000000"},
    {"HeaderWraps", raw_safetensors(~0ULL, "{}", ""), "a header of 18446744073709551615 bytes"},
    {"NoHeader", raw_safetensors("", ""), "the header begins with ''"},
    {"Indented", raw_safetensors(" {}", ""), "the header begins with ' {}', not '{'"},
    {"List", raw_safetensors("[]", ""), "the header begins with '[]', not '{'"},
    {"NotJson", raw_safetensors(R"({"a":tru})", ""), "not a JSON object"},
    {"CutOff", raw_safetensors(R"({"a":{"dtype")", ""), "not a JSON object"},
    {"BehindTheEnd", raw_safetensors("{}{}", ""), "not a JSON object"},
    {"NotUtf8", raw_safetensors("{\"\xff\":{}}", ""), "not a JSON object: The input is not valid UTF-8"},
    {"DeepNesting", raw_safetensors(R"({"a":)" + std::string(5000, '[') + std::string(5000, ']') + "}", ""),
     "not a JSON object"},
    {"TensorTwice",
     raw_safetensors(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],)"
                     R"("data_offsets":[1,2]},"a":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
                     "123"),
     "tensor 'a' is there twice"},
    {"MetadataTwice", raw_safetensors(R"({"__metadata__":{},"__metadata__":{}})", ""),
     "\"__metadata__\" is there twice"},
    {"MetadataKeyTwice", raw_safetensors(R"({"__metadata__":{"k":"1","k":"2"}})", ""),
     "the key 'k' is there twice"},
    {"MetadataNumber", raw_safetensors(R"({"__metadata__":{"k":1}})", ""),
     "\"__metadata__\": 'k' is not a string"},
    {"MetadataList", raw_safetensors(R"({"__metadata__":[]})", ""), "\"__metadata__\" is not an object"},
    {"TensorIsNumber", one("1"), "tensor 'a': not an object"},
    {"NoType", one(R"({"shape":[8],"data_offsets":[0,8]})"), "tensor 'a': no \"dtype\""},
    {"NoShape", one(R"({"dtype":"U8","data_offsets":[0,8]})"), "tensor 'a': no \"shape\""},
    {"NoOffsets", one(R"({"dtype":"U8","shape":[8]})"), "tensor 'a': no \"data_offsets\""},
    {"TypeTwice", one(R"({"dtype":"U8","dtype":"U8","shape":[8],"data_offsets":[0,8]})"),
     "tensor 'a': \"dtype\" is there twice"},
    {"TypeUnknown", one(R"({"dtype":"F31","shape":[8],"data_offsets":[0,8]})"),
     "\"dtype\" 'F31' is not known"},
    {"TypeLowerCase", one(R"({"dtype":"u8","shape":[8],"data_offsets":[0,8]})"),
     "\"dtype\" 'u8' is not known"},
    {"TypeIsNumber", one(R"({"dtype":8,"shape":[8],"data_offsets":[0,8]})"), "\"dtype\" is not a string"},
    {"ShapeNegative", one(R"({"dtype":"U8","shape":[2,-4],"data_offsets":[0,8]})"), "\"shape\", entry 1"},
    {"ShapeFraction", one(R"({"dtype":"U8","shape":[8.0],"data_offsets":[0,8]})"), "\"shape\", entry 0"},
    {"ShapeIsNumber", one(R"({"dtype":"U8","shape":8,"data_offsets":[0,8]})"), "\"shape\" is not a list"},
    {"OneOffset", one(R"({"dtype":"U8","shape":[8],"data_offsets":[8]})"),
     "\"data_offsets\" has 1 entries, not 2"},
    {"ThreeOffsets", one(R"({"dtype":"U8","shape":[8],"data_offsets":[0,8,9]})"), "has 3 entries, not 2"},
    {"OffsetNegative", one(R"({"dtype":"U8","shape":[8],"data_offsets":[-8,0]})"),
     "\"data_offsets\", entry 0"},
    {"OffsetHuge", one(R"({"dtype":"U8","shape":[8],"data_offsets":[0,18446744073709551624]})"),
     "a.safetensors"},
    {"EndBeforeBegin", one(R"({"dtype":"U8","shape":[8],"data_offsets":[8,0]})"), "ends at 0 < its begin 8"},
    {"BeyondTheEnd", one(R"({"dtype":"U8","shape":[9],"data_offsets":[0,9]})"),
     "ends at 9 > 8, the bytes behind the header"},
    {"TooShort", one(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})"),
     "8 bytes, but type and shape say 12"},
    {"TooLong", one(R"({"dtype":"F16","shape":[3],"data_offsets":[0,8]})"),
     "8 bytes, but type and shape say 6"},
    {"ShapeOverflows", one(R"({"dtype":"F32","shape":[4611686018427387904,4,1],"data_offsets":[0,0]})", ""),
     "F32 x [4611686018427387904, 4, 1] has more than 2^64 - 1 bits"},
    {"HalfAByte", one(R"({"dtype":"F4","shape":[3],"data_offsets":[0,1]})", "1"), "no whole number of bytes"},
    {"Overlap",
     raw_safetensors(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                     R"("b":{"dtype":"U8","shape":[4],"data_offsets":[3,7]}})",
                     "1234567"),
     "tensor 'b' begins at 3, inside tensor 'a', which ends at 4"},
    {"Gap",
     raw_safetensors(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                     R"("b":{"dtype":"U8","shape":[3],"data_offsets":[5,8]}})",
                     "12345678"),
     "tensor 'b' begins at 5, but the bytes from 4 on are of no tensor"},
    {"GapInFront", one(R"({"dtype":"U8","shape":[7],"data_offsets":[1,8]})"),
     "the bytes from 0 on are of no tensor"},
    {"Rest", one(R"({"dtype":"U8","shape":[7],"data_offsets":[0,7]})"),
     "the tensors end at 7, but 8 bytes are behind the header"},
    {"RestWithoutTensors", raw_safetensors("{}", "x"), "the tensors end at 0, but 1 bytes"},
};

class SafetensorsLies : public testing::TestWithParam<Lie> {};

TEST_P(SafetensorsLies, AreNamed) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a.safetensors", GetParam().content);
  const auto file = SafetensorsFile::open(path);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, Errc::invalid_argument);
  EXPECT_THAT(file.error().message, testing::StartsWith(path + ": "));
  EXPECT_THAT(file.error().message, HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(All, SafetensorsLies, testing::ValuesIn(lies),
                         [](const auto& lie) { return std::string(lie.param.name); });

TEST_F(SafetensorsFileTest, NamesInMessagesAreShortAndPrintable) {
  const auto file = open(raw_safetensors("{\"" + std::string(500, 'n') + "\\n\":1}", ""));
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error().message, HasSubstr("nnn...': not an object"));
  EXPECT_LT(file.error().message.size(), folder.file("a.safetensors").size() + 160);
}

}  // namespace
}  // namespace trimtab::test
