// SPDX-License-Identifier: Apache-2.0
#include <trimtab/weights/checkpoint.hpp>
#include <trimtab/weights/safetensors_writer.hpp>

#include "unit/io/temporary_folder.hpp"
#include "verify/layout_weights.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

namespace trimtab::test {
namespace {

using verify::all_arrangements;
using verify::Arrangement;
using verify::LayoutWeights;

constexpr std::int32_t num_layers = 3;
constexpr std::int32_t num_slots = 4;

Arrangement draw_arrangement() {
  return *rc::gen::elementOf(
      std::vector<Arrangement>(std::begin(all_arrangements), std::end(all_arrangements)));
}

std::vector<std::byte> draw_bytes(std::size_t size) {
  std::vector<std::byte> bytes(size);
  std::uint32_t state = *rc::gen::arbitrary<std::uint32_t>();
  for (std::byte& byte : bytes) byte = static_cast<std::byte>((state = state * 1664525 + 1013904223) >> 24);
  return bytes;
}

std::vector<SafetensorsEntry> draw_entries() {
  std::vector<SafetensorsEntry> entries;
  const auto count = *rc::gen::inRange<std::size_t>(0, 9);
  for (std::size_t i = 0; i < count; ++i) {
    const auto type =
        static_cast<SafetensorsType>(*rc::gen::inRange(0, static_cast<int>(SafetensorsType::u64) + 1));
    std::vector<std::uint64_t> shape(*rc::gen::inRange<std::size_t>(0, 4));
    for (std::uint64_t& size : shape) size = *rc::gen::inRange<std::uint64_t>(0, 9);
    if (bits_of(type) % 8 != 0) shape.push_back(4);
    const auto name = *rc::gen::container<std::string>(rc::gen::elementOf(std::string("ab.{}\"\\\n\t0")));
    entries.push_back({name + std::to_string(i), type, std::move(shape)});
  }
  return entries;
}

RC_GTEST_PROP(Safetensors, AnyTensorsComeBack, ()) {
  const TemporaryFolder folder;
  const std::vector<SafetensorsEntry> entries = draw_entries();
  std::vector<std::vector<std::byte>> bytes;
  auto writer = SafetensorsWriter::create(folder.file("a"), entries, {{"a\nkey", "\"value\""}});
  RC_ASSERT(writer.has_value());
  for (const SafetensorsEntry& entry : entries) {
    bytes.push_back(draw_bytes(static_cast<std::size_t>(*tensor_bytes(entry.type, entry.shape))));
    RC_ASSERT(writer->append(bytes.back()).has_value());
  }
  RC_ASSERT(writer->commit().has_value());
  const auto file = SafetensorsFile::open(folder.file("a"));
  RC_ASSERT(file.has_value());
  RC_ASSERT(file->tensors().size() == entries.size());
  RC_ASSERT(file->metadata().at("a\nkey") == "\"value\"");
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const SafetensorsTensor* tensor = file->find(entries[i].name);
    RC_ASSERT(tensor != nullptr && tensor->type == entries[i].type && tensor->shape == entries[i].shape);
    RC_ASSERT(std::ranges::equal(file->bytes(*tensor), bytes[i]));
    std::vector<std::byte> copy(bytes[i].size());
    RC_ASSERT(file->read(*tensor, 0, copy).has_value());
    RC_ASSERT(copy == bytes[i]);
  }
}

/// A file with any one byte changed, or cut anywhere, is refused, or has tensors of the same sizes.
RC_GTEST_PROP(Safetensors, DamagedFilesAreNeverTrusted, ()) {
  const TemporaryFolder folder;
  auto writer =
      SafetensorsWriter::create(folder.file("a"), {{"a", SafetensorsType::f32, {3}}, {"b", {}, {2, 2}}});
  RC_ASSERT(writer.has_value());
  RC_ASSERT(writer->append(draw_bytes(16)).has_value() && writer->commit().has_value());
  std::string content = folder.read("a");
  if (*rc::gen::arbitrary<bool>()) {
    content.resize(*rc::gen::inRange<std::size_t>(0, content.size()));
    folder.write("a", content);
    RC_ASSERT(!SafetensorsFile::open(folder.file("a")).has_value());
    return;
  }
  const auto at = *rc::gen::inRange<std::size_t>(0, content.size());
  content[at] = static_cast<char>(content[at] ^ *rc::gen::inRange(1, 256));
  const auto file = SafetensorsFile::open(folder.write("a", content));
  if (!file) return;
  std::uint64_t total = 0;
  for (const SafetensorsTensor& tensor : file->tensors()) total += file->bytes(tensor).size();
  RC_ASSERT(total == 16U);
}

/// Whatever the layout of the store that wrote it, every other store gets its bundles back from it.
RC_GTEST_PROP(Checkpoints, LeadFromAnyLayoutToAnyOther, ()) {
  const TemporaryFolder folder;
  std::vector<ExpertId> map;
  const std::vector<std::int32_t> experts{0, 1, 2, 3};
  for (std::int32_t layer = 0; layer < num_layers; ++layer) {
    auto row = experts;
    const auto turn = *rc::gen::inRange(0, num_slots);
    std::rotate(row.begin(), row.begin() + turn, row.end());
    for (const std::int32_t expert : row) map.push_back(ExpertId{expert});
  }
  const Placement placement = *Placement::make(num_layers, num_slots, num_slots, map);
  LayoutWeights from(num_layers, ids<SlotId>(num_slots), draw_arrangement());
  from.fill(placement);
  const auto share = checkpoint_share(placement, ids<SlotId>(num_slots));
  RC_ASSERT(write_checkpoint_shard(folder.file("a"), from.store(), share).has_value());
  RC_ASSERT(from.find_difference(placement) == "");
  RC_ASSERT(from.num_whole_writes() == 0);

  const Placement identity = *Placement::make(num_layers, num_slots, num_slots, [&] {
    std::vector<ExpertId> same;
    for (std::int32_t i = 0; i < num_layers * num_slots; ++i) same.push_back(ExpertId{i % num_slots});
    return same;
  }());
  LayoutWeights to(num_layers, ids<SlotId>(num_slots), draw_arrangement());
  to.fill(placement);
  const auto source = CheckpointSource::open(folder.file("a"), to.store());
  RC_ASSERT(source.has_value());
  for (LayerId layer : ids<LayerId>(num_layers)) {
    to.store().begin_layer(layer);
    for (SlotId slot : ids<SlotId>(num_slots)) {
      std::vector<std::byte> bundle(to.store().bundle_bytes(layer));
      RC_ASSERT((*source)->is_verified(layer, identity.expert_at(layer, slot)));
      RC_ASSERT((*source)->read(layer, identity.expert_at(layer, slot), bundle).has_value());
      to.store().exchange_bundle(layer, slot, bundle);
    }
    to.store().end_layer(layer);
  }
  RC_ASSERT(to.find_difference(identity) == "");
}

}  // namespace
}  // namespace trimtab::test
