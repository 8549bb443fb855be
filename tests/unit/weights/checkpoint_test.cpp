// SPDX-License-Identifier: Apache-2.0
#include <trimtab/weights/checkpoint.hpp>
#include <trimtab/weights/safetensors_writer.hpp>

#include "unit/io/temporary_folder.hpp"
#include "unit/weights/bundle_arena.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <thread>

namespace trimtab::test {
namespace {

using testing::HasSubstr;

constexpr std::int32_t num_layers = 3;
constexpr IdRange<SlotId> rank_slots{SlotId{4}, SlotId{8}};

/// Slot s of each layer holds expert s + 10.
ExpertId expert_in(SlotId slot) { return ExpertId{slot.value() + 10}; }

/// A store whose first layer is dense: it has no bundle.
class CheckpointTest : public testing::Test {
 protected:
  CheckpointTest() : arena(num_layers, rank_slots), store(num_layers, rank_slots) {
    for (LayerId layer : layers) {
      EXPECT_TRUE(store.register_layer(layer, arena.tensors(layer)));
      for (SlotId slot : rank_slots) {
        arena.fill(layer, slot, expert_in(slot));
        all.push_back({layer, expert_in(slot), slot});
      }
    }
  }

  std::unique_ptr<CheckpointSource> open_sound(const std::string& from) {
    auto source = CheckpointSource::open(from, store);
    EXPECT_TRUE(source) << source.error().message;
    return source ? *std::move(source) : nullptr;
  }

  std::string refusal(const std::string& from, const CheckpointNames& names = {}) {
    const auto source = CheckpointSource::open(from, store, names);
    return source ? "" : source.error().message;
  }

  /// One file with every tensor of one expert, changed by `change` before it is written.
  void write_foreign(const std::function<void(std::vector<SafetensorsEntry>&)>& change) {
    std::vector<SafetensorsEntry> entries;
    for (const TensorShape& shape : w8a8_bundle) {
      entries.push_back({std::string("model.layers.1.mlp.experts.7.") + shape.name, SafetensorsType::i8, {}});
      if (shape.type == ElementType::float32) entries.back().type = SafetensorsType::f32;
      if (shape.type == ElementType::int32) entries.back().type = SafetensorsType::i32;
      entries.back().shape = {shape.slot_bytes / size_of(shape.type)};
    }
    change(entries);
    std::size_t size = 0;
    for (const auto& entry : entries) size += *tensor_bytes(entry.type, entry.shape);
    auto bytes = BundleArena::bundle_of(LayerId{1}, ExpertId{7});
    bytes.resize(size);
    auto writer = SafetensorsWriter::create(path, entries);
    ASSERT_TRUE(writer && writer->append(bytes) && writer->commit());
  }

  static constexpr IdRange<LayerId> layers{LayerId{1}, LayerId{num_layers}};
  BundleArena arena;
  ExpertStore store;
  std::vector<StoredExpert> all;
  TemporaryFolder folder;
  std::string path = folder.file("model.safetensors");
};

TEST_F(CheckpointTest, GivesBackWhatWasWritten) {
  ASSERT_TRUE(write_checkpoint_shard(path, store, all));
  const auto source = open_sound(path);
  ASSERT_NE(source, nullptr);
  EXPECT_EQ(source->num_bundles(), all.size());
  std::size_t bytes = 0;
  for (const StoredExpert& one : all) {
    std::vector<std::byte> bundle(store.bundle_bytes(one.layer));
    ASSERT_TRUE(source->read(one.layer, one.expert, bundle));
    EXPECT_EQ(bundle, BundleArena::bundle_of(one.layer, one.expert));
    EXPECT_TRUE(source->holds(one.layer, one.expert));
    EXPECT_TRUE(source->is_verified(one.layer, one.expert));
    bytes += bundle.size();
  }
  EXPECT_EQ(source->counters().bundles_read, all.size());
  EXPECT_EQ(source->counters().bytes_read, bytes);
  EXPECT_GT(source->counters().time_reading.count(), 0);
  EXPECT_THAT(source->describe(), HasSubstr("model.safetensors (8 bundles in 1 files)"));
}

TEST_F(CheckpointTest, IsReadByManyThreadsAtOnce) {
  ASSERT_TRUE(write_checkpoint_shard(path, store, all));
  const auto source = open_sound(path);
  ASSERT_NE(source, nullptr);
  std::atomic<int> num_wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (const StoredExpert& one : all) {
        std::vector<std::byte> bundle(store.bundle_bytes(one.layer));
        const bool is_read = source->read(one.layer, one.expert, bundle).has_value();
        if (!is_read || bundle != BundleArena::bundle_of(one.layer, one.expert)) ++num_wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_wrong, 0);
  EXPECT_EQ(source->counters().bundles_read, 4 * all.size());
}

TEST_F(CheckpointTest, HoldsNothingElse) {
  ASSERT_TRUE(write_checkpoint_shard(path, store, all));
  const auto source = open_sound(path);
  ASSERT_NE(source, nullptr);
  std::vector<std::byte> bundle(store.bundle_bytes(LayerId{1}));
  for (const auto& [layer, expert] :
       {std::pair(LayerId{0}, ExpertId{14}), std::pair(LayerId{1}, ExpertId{3}),
        std::pair(LayerId{9}, ExpertId{14}), std::pair(LayerId{1}, no_expert)}) {
    EXPECT_FALSE(source->holds(layer, expert));
    EXPECT_FALSE(source->is_verified(layer, expert));
    EXPECT_EQ(source->read(layer, expert, bundle).error().code, Errc::not_found);
  }
  EXPECT_EQ(source->counters().num_failed, 4U);
  bundle.pop_back();
  const Status small = source->read(LayerId{1}, ExpertId{14}, bundle);
  ASSERT_FALSE(small);
  EXPECT_EQ(small.error().code, Errc::invalid_argument);
  EXPECT_THAT(small.error().message,
              HasSubstr("layer 1, expert 14: room for 13395 bytes, but the bundle has 13396"));
}

/// Every byte of a bundle's tensors counts, the first and the last of each, too.
TEST_F(CheckpointTest, AFlippedBitIsFound) {
  ASSERT_TRUE(write_checkpoint_shard(path, store, all));
  const std::string sound = folder.read("model.safetensors");
  const std::size_t data = sound.size() - all.size() * store.bundle_bytes(LayerId{1});
  for (std::size_t at = 0; at < store.bundle_bytes(LayerId{1}); at += 977) {
    std::string damaged = sound;
    const std::size_t bundle = at % all.size();
    damaged[data + bundle * store.bundle_bytes(LayerId{1}) + at] ^= static_cast<char>(1 << at % 8);
    folder.write("model.safetensors", damaged);
    const auto source = open_sound(path);
    ASSERT_NE(source, nullptr);
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::vector<std::byte> bytes(store.bundle_bytes(all[i].layer));
      const Status done = source->read(all[i].layer, all[i].expert, bytes);
      ASSERT_EQ(done.has_value(), i != bundle) << at;
      if (done) continue;
      EXPECT_EQ(done.error().code, Errc::corrupt);
      EXPECT_THAT(done.error().message,
                  HasSubstr("model.safetensors: layer " + std::to_string(all[i].layer.value()) + ", expert " +
                            std::to_string(all[i].expert.value())));
    }
  }
}

/// Checksums are bound to layer and expert: two bundles under each other's names are found.
TEST_F(CheckpointTest, SwappedNamesAreFound) {
  ASSERT_TRUE(write_checkpoint_shard(path, store, all));
  std::string content = folder.read("model.safetensors");
  const auto rename = [&](const std::string& from, const std::string& to) {
    for (std::size_t at = content.find(from); at != std::string::npos; at = content.find(from)) {
      content.replace(at, from.size(), to);
    }
  };
  rename("layers.1.mlp.experts.14.", "layers.1.mlp.experts.##.");
  rename("layers.1.mlp.experts.15.", "layers.1.mlp.experts.14.");
  rename("layers.1.mlp.experts.##.", "layers.1.mlp.experts.15.");
  folder.write("model.safetensors", content);
  const auto source = open_sound(path);
  ASSERT_NE(source, nullptr);
  std::vector<std::byte> bundle(store.bundle_bytes(LayerId{1}));
  EXPECT_EQ(source->read(LayerId{1}, ExpertId{14}, bundle).error().code, Errc::corrupt);
  EXPECT_EQ(source->read(LayerId{1}, ExpertId{15}, bundle).error().code, Errc::corrupt);
  EXPECT_TRUE(source->read(LayerId{1}, ExpertId{16}, bundle));
}

TEST_F(CheckpointTest, AFileCutOffMeanwhileIsAnError) {
  ASSERT_TRUE(write_checkpoint_shard(path, store, all));
  const auto source = open_sound(path);
  ASSERT_NE(source, nullptr);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  std::vector<std::byte> bundle(store.bundle_bytes(LayerId{2}));
  EXPECT_TRUE(source->read(LayerId{2}, ExpertId{16}, bundle));
  const Status done = source->read(LayerId{2}, ExpertId{17}, bundle);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Errc::io);
  EXPECT_THAT(done.error().message,
              HasSubstr("cut off (in tensor 'model.layers.2.mlp.experts.17.w2_offset') (layer 2"));
}

TEST_F(CheckpointTest, ShardsOfManyRanksAreOne) {
  std::vector<std::string> names;
  for (std::int32_t r = 0; r < 4; ++r) {
    names.push_back(shard_name(Rank{r}, 4));
    std::vector<StoredExpert> share;
    for (const StoredExpert& one : all) {
      if (one.slot.value() == r + 4) share.push_back(one);
    }
    ASSERT_TRUE(write_checkpoint_shard(folder.file(names.back()), store, share));
  }
  EXPECT_EQ(names.back(), "model-00004-of-00004.safetensors");
  EXPECT_EQ(open_sound(folder.file(""))->num_bundles(), all.size());  // By the folder alone.
  ASSERT_TRUE(write_checkpoint_index(folder.file(""), names));
  for (const std::string& at : {folder.file(""), folder.file("model.safetensors.index.json")}) {
    const auto source = open_sound(at);
    ASSERT_NE(source, nullptr);
    EXPECT_THAT(source->describe(), HasSubstr("8 bundles in 4 files"));
    for (const StoredExpert& one : all) {
      std::vector<std::byte> bundle(store.bundle_bytes(one.layer));
      ASSERT_TRUE(source->read(one.layer, one.expert, bundle));
      EXPECT_EQ(bundle, BundleArena::bundle_of(one.layer, one.expert));
    }
  }
}

TEST_F(CheckpointTest, ATensorInTwoFilesIsRefused) {
  const std::vector<std::string> names{"a.safetensors", "b.safetensors"};
  for (const std::string& name : names) ASSERT_TRUE(write_checkpoint_shard(folder.file(name), store, all));
  EXPECT_THAT(refusal(folder.file("")), HasSubstr("is in " + folder.file("a.safetensors") + " and in "));
  const Status index = write_checkpoint_index(folder.file(""), names);
  ASSERT_FALSE(index);
  EXPECT_THAT(index.error().message, HasSubstr("is in a.safetensors as well"));
}

TEST_F(CheckpointTest, AnIndexThatLiesIsRefused) {
  ASSERT_TRUE(write_checkpoint_shard(path, store, all));
  const auto index = folder.write("i.json", R"({"weight_map":{"none":"model.safetensors"}})");
  EXPECT_THAT(refusal(index), HasSubstr("i.json: tensor 'none' is not in "));
  folder.write("i.json", R"({"weight_map":{"none":"gone.safetensors"}})");
  EXPECT_THAT(refusal(index), HasSubstr("gone.safetensors: cannot be read"));
}

TEST_F(CheckpointTest, AnEmptyFolderIsRefused) {
  EXPECT_THAT(refusal(folder.file("")), HasSubstr("no safetensors file in it"));
}

TEST_F(CheckpointTest, FilesOfOthersAreReadUnverified) {
  write_foreign([](auto&) {});
  const auto source = open_sound(path);
  ASSERT_NE(source, nullptr);
  EXPECT_TRUE(source->holds(LayerId{1}, ExpertId{7}));
  EXPECT_FALSE(source->is_verified(LayerId{1}, ExpertId{7}));
  std::vector<std::byte> bundle(store.bundle_bytes(LayerId{1}));
  ASSERT_TRUE(source->read(LayerId{1}, ExpertId{7}, bundle));
  EXPECT_EQ(bundle, BundleArena::bundle_of(LayerId{1}, ExpertId{7}));
}

TEST_F(CheckpointTest, TensorsOfTheModelAreJoined) {
  write_foreign([](auto& entries) {
    entries[0].name = "model.layers.1.mlp.experts.7.gate_proj.weight";
    entries[0].shape = {4502};
    entries.insert(entries.begin() + 1,
                   {"model.layers.1.mlp.experts.7.up_proj.weight", SafetensorsType::i8, {2, 2251}});
    entries.push_back({"model.embed.weight", SafetensorsType::f32, {2}});
    entries.push_back({"model.layers.0.mlp.experts.7.w13", SafetensorsType::f32, {2}});
  });
  CheckpointNames names;
  names.parts["w13"] = {"gate_proj.weight", "up_proj.weight"};
  const auto source = CheckpointSource::open(path, store, names);
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_EQ((*source)->num_bundles(), 1U);
  std::vector<std::byte> bundle(store.bundle_bytes(LayerId{1}));
  ASSERT_TRUE((*source)->read(LayerId{1}, ExpertId{7}, bundle));
  EXPECT_EQ(bundle, BundleArena::bundle_of(LayerId{1}, ExpertId{7}));
  names.parts["w13"].clear();
  EXPECT_THAT(refusal(path, names), HasSubstr("tensor 'w13': made of no parts"));
}

// Ascend/sglang#603, vllm-project/vllm#47588: weights came without their scales.
TEST_F(CheckpointTest, AMissingTensorIsRefused) {
  write_foreign([](auto& entries) { entries.erase(entries.begin() + 4); });
  EXPECT_THAT(refusal(path),
              HasSubstr("no tensor 'model.layers.1.mlp.experts.7.w2_scale', which the store's layer 1, "
                        "tensor w2_scale needs"));
}

TEST_F(CheckpointTest, OtherSizesAreRefusedNamingBoth) {
  write_foreign([](auto& entries) { entries[3].shape = {4095}; });
  EXPECT_THAT(refusal(path),
              HasSubstr("tensor 'model.layers.1.mlp.experts.7.w2': 4095 bytes, but the store's layer 1, "
                        "tensor w2 has 4096"));
}

TEST_F(CheckpointTest, OtherTypesAreRefusedNamingBoth) {
  write_foreign([](auto& entries) { entries[1].type = SafetensorsType::i32; });
  EXPECT_THAT(refusal(path),
              HasSubstr("w13_scale': type I32, but the store's layer 1, tensor w13_scale is F32"));
}

TEST_F(CheckpointTest, NoExpertIsRefused) {
  write_foreign([](auto& entries) { entries = {{"other", SafetensorsType::u8, {1}}}; });
  EXPECT_THAT(refusal(path),
              HasSubstr("none of 1 tensors is of an expert of the store's layers by the pattern 'model."));
}

TEST_F(CheckpointTest, ChecksumsOfAnotherOrderAreRefused) {
  ASSERT_TRUE(write_checkpoint_shard(path, store, all));
  std::vector<TensorSpec> turned = arena.tensors(LayerId{1});
  std::swap(turned[0], turned[3]);
  ExpertStore other(num_layers, rank_slots);
  ASSERT_TRUE(other.register_layer(LayerId{1}, turned));
  const auto source = CheckpointSource::open(path, other);
  ASSERT_FALSE(source);
  EXPECT_THAT(source.error().message, HasSubstr("the checksums of layer 1 are of tensors 'w13,w13_scale,"));
  EXPECT_THAT(source.error().message, HasSubstr("but the store has 'w2,w13_scale,"));
}

TEST_F(CheckpointTest, AChecksumThatIsNoneIsRefused) {
  ASSERT_TRUE(write_checkpoint_shard(path, store, std::span(all).first(1)));
  std::string content = folder.read("model.safetensors");
  const std::string key = R"("trimtab.xxh3.1.14":")";
  content[content.find(key) + key.size() + 3] = 'x';
  folder.write("model.safetensors", content);
  EXPECT_THAT(refusal(path), HasSubstr("metadata 'trimtab.xxh3.1.14' is "));
}

TEST_F(CheckpointTest, APatternMustBeOne) {
  ASSERT_TRUE(write_checkpoint_shard(path, store, all));
  for (const auto& [pattern, message] : std::vector<std::pair<std::string, std::string>>{
           {"experts.{expert}.{tensor}", "{layer} is not there once"},
           {"{layer}.{layer}.{expert}.{tensor}", "{layer} is not there once"},
           {"{layer}.{tensor}.{expert}", "{tensor} is not the last of the three"},
           {"{layer}{expert}.{tensor}", "must be apart"},
           {"{layer}.1{expert}.{tensor}", "must be apart"},
           {"{layer}.{expert}{tensor}", "a digit, or nothing, behind a number"}}) {
    CheckpointNames names;
    names.pattern = pattern;
    EXPECT_THAT(refusal(path, names), HasSubstr(message)) << pattern;
    EXPECT_FALSE(write_checkpoint_shard(path, store, all, names)) << pattern;
  }
}

TEST_F(CheckpointTest, AnyPatternComesBack) {
  CheckpointNames names;
  names.pattern = "e{expert}_of_{layer}:{tensor}.weight";
  ASSERT_TRUE(write_checkpoint_shard(path, store, all, names));
  const auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(file);
  EXPECT_NE(file->find("e15_of_2:w13_scale.weight"), nullptr);
  const auto source = CheckpointSource::open(path, store, names);
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_EQ((*source)->num_bundles(), all.size());
}

TEST_F(CheckpointTest, OddNumbersInNamesAreOfNoExpert) {
  for (const char* name :
       {"model.layers.1.mlp.experts.07.w13", "model.layers.+1.mlp.experts.7.w13",
        "model.layers.1.mlp.experts.99999999999.w13", "model.layers.1.mlp.experts.-1.w13"}) {
    write_foreign([&](auto& entries) { entries = {{name, SafetensorsType::u8, {1}}}; });
    EXPECT_THAT(refusal(path), HasSubstr("none of 1 tensors")) << name;
  }
}

TEST_F(CheckpointTest, WritingRefusesWhatItCannotWrite) {
  const auto message = [&](StoredExpert one) {
    std::vector<StoredExpert> experts = all;
    experts.push_back(one);
    const Status done = write_checkpoint_shard(path, store, experts);
    return done ? "" : done.error().message;
  };
  EXPECT_THAT(message({LayerId{0}, ExpertId{1}, SlotId{4}}), HasSubstr("slot 4: the layer has no bundle"));
  EXPECT_THAT(message({LayerId{1}, ExpertId{1}, SlotId{8}}), HasSubstr("the store's slots are 4..7"));
  EXPECT_THAT(message({LayerId{1}, no_expert, SlotId{4}}), HasSubstr("expert -1, slot 4: no expert"));
  EXPECT_THAT(message({LayerId{1}, ExpertId{14}, SlotId{5}}), HasSubstr("is to be written twice"));
  CheckpointNames parts;
  parts.parts["w13"] = {"a", "b"};
  EXPECT_FALSE(write_checkpoint_shard(path, store, all, parts));
  ASSERT_TRUE(store.try_acquire_workspaces());
  EXPECT_EQ(write_checkpoint_shard(path, store, all).error().code, Errc::unavailable);
  store.release_workspaces();
  EXPECT_EQ(folder.num_entries(), 0U);
  EXPECT_TRUE(write_checkpoint_shard(path, store, all));
  EXPECT_TRUE(store.try_acquire_workspaces());  // Given back.
}

/// A file that Python made (tests/golden/make_safetensors.py): tensors in another order than a bundle's.
TEST(GoldenCheckpoint, IsReadAsItWasMade) {
  std::vector<std::byte> memory(256);
  std::vector<TensorSpec> tensors(3);
  const std::vector<TensorShape> shapes{{"w2", ElementType::uint8, 12},
                                        {"w13", ElementType::int8, 24},
                                        {"w13_scale", ElementType::float32, 16}};
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    tensors[i].name = shapes[i].name;
    tensors[i].type = shapes[i].type;
    tensors[i].base = memory.data() + 64 * i;
    tensors[i].num_slots = 1;
    tensors[i].slot_bytes = tensors[i].stride_bytes = shapes[i].slot_bytes;
  }
  ExpertStore store(2, ids<SlotId>(1));
  ASSERT_TRUE(store.register_layer(LayerId{1}, tensors));
  const auto source = CheckpointSource::open(TRIMTAB_GOLDEN_FOLDER "/experts.safetensors", store);
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_EQ((*source)->num_bundles(), 2U);
  for (const auto& [expert, first] : {std::pair(3, 1), std::pair(5, 4)}) {  // Names in order: embed is 0.
    std::vector<std::byte> bundle(store.bundle_bytes(LayerId{1}));
    ASSERT_TRUE((*source)->read(LayerId{1}, ExpertId{expert}, bundle));
    std::vector<std::byte> expected;
    for (const auto& [tensor, size] :
         {std::pair(first + 2, 12), std::pair(first, 24), std::pair(first + 1, 16)}) {
      for (int i = 0; i < size; ++i) expected.push_back(static_cast<std::byte>(37 * tensor + 11 * i + 5));
    }
    EXPECT_EQ(bundle, expected);
  }
}

TEST(CheckpointShare, IsEveryExpertOnce) {
  const auto placement =
      *Placement::make(2, 6, 3,
                       {ExpertId{0}, ExpertId{1}, ExpertId{1}, ExpertId{2}, ExpertId{0}, no_expert,  //
                        ExpertId{2}, ExpertId{2}, ExpertId{0}, ExpertId{1}, ExpertId{0}, ExpertId{1}});
  const auto slots_of = [&](std::int32_t first, std::int32_t last) {
    std::vector<std::pair<int, int>> slots;
    for (const auto& one : checkpoint_share(placement, {SlotId{first}, SlotId{last}})) {
      EXPECT_EQ(placement.expert_at(one.layer, one.slot), one.expert);
      slots.emplace_back(one.layer.value(), one.slot.value());
    }
    return slots;
  };
  using testing::ElementsAre;
  using testing::Pair;
  EXPECT_THAT(slots_of(0, 3), ElementsAre(Pair(0, 0), Pair(0, 1), Pair(1, 0), Pair(1, 2)));
  EXPECT_THAT(slots_of(3, 6), ElementsAre(Pair(0, 3), Pair(1, 3)));
}

}  // namespace
}  // namespace trimtab::test
