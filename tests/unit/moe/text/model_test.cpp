// SPDX-License-Identifier: Apache-2.0
#include "moe/text/model.hpp"

#include <gmock/gmock.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "unit/moe/text/some_model.hpp"

namespace trimtab::moe {
namespace {

class TextModelFile : public testing::Test {
 protected:
  TextModelFile()
      : folder_(testing::TempDir() + testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::create_directories(folder_);
  }
  ~TextModelFile() override { std::filesystem::remove_all(folder_); }

  void expect_refused(const std::string& why) {
    file_.write(folder_);
    const Result<TextModel> read = read_text_model(folder_);
    ASSERT_FALSE(read.has_value());
    EXPECT_EQ(read.error().code, Errc::invalid_argument);
    EXPECT_EQ(read.error().message, folder_ + "/model.safetensors: " + why);
  }

  TextModel model_ = some_text_model();
  ModelFile file_{model_};
  std::string folder_;
};

TEST_F(TextModelFile, IsReadAsItWasWritten) {
  file_.write(folder_);
  const Result<TextModel> read = read_text_model(folder_);
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(read->config.num_layers(), 3);
  EXPECT_EQ(read->config.experts.top_groups, 2);
  EXPECT_EQ(read->embedding, model_.embedding);
  EXPECT_EQ(read->head, model_.head);
  EXPECT_EQ(read->layers[0].feed_forward.w2.q, model_.layers[0].feed_forward.w2.q);
  EXPECT_EQ(read->layers[2].gate, model_.layers[2].gate);
  EXPECT_EQ(read->layers[1].qkv.offset, model_.layers[1].qkv.offset);
  EXPECT_EQ(read->expert(LayerId{1}, ExpertId{5}).w13.scale, model_.experts[13].w13.scale);
  EXPECT_EQ(read->gate_bias(), model_.gate_bias());
  std::size_t bytes = 0;
  for (const ModelFile::Tensor& tensor : file_.tensors) bytes += tensor.bytes.size();
  EXPECT_EQ(read->size_bytes(), bytes);
}

TEST_F(TextModelFile, IsNotFound) {
  const Result<TextModel> read = read_text_model(folder_);
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().code, Errc::not_found);
  EXPECT_THAT(read.error().message, testing::HasSubstr(folder_ + "/model.safetensors"));
}

TEST_F(TextModelFile, RefusesATensorThatIsMissing) {
  std::erase_if(file_.tensors, [](const ModelFile::Tensor& t) {
    return t.entry.name == "model.layers.2.mlp.experts.7.w2_scale";
  });
  expect_refused("tensor model.layers.2.mlp.experts.7.w2_scale is missing");
}

TEST_F(TextModelFile, RefusesATensorThatNoModelHas) {
  file_.tensors.push_back({{"extra", SafetensorsType::u8, {1}}, {std::byte{0}}});
  expect_refused(fmt::format("{} tensors, but a model of this shape has {}", file_.tensors.size(),
                             file_.tensors.size() - 1));
}

TEST_F(TextModelFile, RefusesAnotherTypeOrShape) {
  file_.tensor("model.layers.0.self_attn.o_proj").entry.type = SafetensorsType::u8;
  expect_refused("tensor model.layers.0.self_attn.o_proj is U8 [16, 16], not I8 [16, 16]");
  file_.tensor("model.layers.0.self_attn.o_proj").entry.type = SafetensorsType::i8;
  file_.tensor("lm_head.weight").entry.shape = {16, 256};
  expect_refused("tensor lm_head.weight is F32 [16, 256], not F32 [256, 16]");
}

// Wider weights saturate on CPUs without VNNI (docs/gotchas.md).
TEST_F(TextModelFile, RefusesAWeightBeyondSevenBits) {
  file_.tensor("model.layers.1.mlp.shared_experts.w2").bytes[5] = std::byte{64};
  expect_refused("tensor model.layers.1.mlp.shared_experts.w2: value 64 at 5 is not in -63..63");
}

TEST_F(TextModelFile, RefusesAnOffsetThatMayOverflow) {
  const std::int32_t wrong = std::numeric_limits<std::int32_t>::min();
  std::memcpy(&file_.tensor("model.layers.1.self_attn.qkv_proj_offset").bytes[8], &wrong, sizeof wrong);
  expect_refused(
      "tensor model.layers.1.self_attn.qkv_proj_offset: value -2147483648 at 2 is not in -128..128");
}

TEST_F(TextModelFile, RefusesANumberThatIsNotFinite) {
  const float wrong = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(&file_.tensor("model.norm.weight").bytes[4], &wrong, sizeof wrong);
  expect_refused("tensor model.norm.weight: value nan at 1 is not finite");
}

TEST_F(TextModelFile, RefusesMetadataThatDoesNotFit) {
  const auto expect = [&](const std::string& key, const std::string& value, const std::string& why) {
    const std::string before = std::exchange(file_.metadata[key], value);
    expect_refused(why);
    file_.metadata[key] = before;
  };
  expect("format", "trimtab.model/2", "format is \"trimtab.model/2\", not \"trimtab.model/1\"");
  expect("weights", "fp8", "weights is \"fp8\", not \"w8a8\"");
  expect("vocabulary", "257", "vocabulary 257 is not in 256..256");
  expect("dense_layers", "3", "dense_layers 3 is not in 0..2");
  expect("heads", "two", "heads two is not in 1..65536");
  expect("context", "1", "context 1 is not in 2..65536");
  expect("rope_base", "nan", "rope_base nan is not in 1..1000000000000");
  expect("norm_epsilon", "1e-5", "norm_epsilon 1e-5 is not in 1e-06..1e-06");
  expect("top_groups", "5", "top-groups 5 is not in 1..4");
  expect("heads", "3", "width 16 is no multiple of 6, twice the heads");
  file_.metadata.erase("top_k");
  expect_refused("the metadata lacks \"top_k\"");
}

}  // namespace
}  // namespace trimtab::moe
