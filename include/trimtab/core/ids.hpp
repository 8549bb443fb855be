// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace trimtab {

/// An integer that cannot be mixed with another kind of integer.
///
/// Logical experts and physical slots are both small numbers; mistaking one for the other gives
/// plausible, wrong output. Each kind is a type of its own, and there is no implicit conversion.
/// Layout is that of `Rep`, so buffers of ids can be handed to and from engines unchanged.
template <class Tag, class Rep>
class StrongId {
 public:
  using rep = Rep;

  constexpr StrongId() noexcept = default;
  constexpr explicit StrongId(Rep value) noexcept : value_(value) {}

  /// The number itself, for arithmetic, printing and wire formats.
  [[nodiscard]] constexpr Rep value() const noexcept { return value_; }

  /// The number as a container index. Precondition: not negative.
  [[nodiscard]] constexpr std::size_t index() const noexcept { return static_cast<std::size_t>(value_); }

  [[nodiscard]] constexpr StrongId next() const noexcept { return StrongId(static_cast<Rep>(value_ + 1)); }

  // clang-tidy 14 takes the 0 of a rewritten comparison for a pointer.
  friend constexpr auto operator<=>(StrongId, StrongId) noexcept = default;  // NOLINT(modernize-use-nullptr)

 private:
  Rep value_{};
};

/// A row of the load input, dense rows included, from 0.
using LayerId = StrongId<struct LayerTag, std::int32_t>;
/// A logical expert: an expert of the trained model, 0..E-1 in one layer.
using ExpertId = StrongId<struct ExpertTag, std::int32_t>;
/// A physical slot: a place for one expert's weights, 0..S-1 in one layer, numbered rank by rank.
using SlotId = StrongId<struct SlotTag, std::int32_t>;
/// One process (or rank thread) with one device.
using Rank = StrongId<struct RankTag, std::int32_t>;
/// Ranks joined by a fast link.
using NodeId = StrongId<struct NodeTag, std::int32_t>;
/// Grows by one at each commit; ties weights, routing table, counters and batches in flight.
using Epoch = StrongId<struct EpochTag, std::uint64_t>;
/// Number of a forward pass of the service, from 0, the same on every rank.
using Forward = StrongId<struct ForwardTag, std::uint64_t>;

/// A vacant slot in a placement, and a padding entry in a buffer of expert ids (R2).
inline constexpr ExpertId no_expert{-1};
/// Where a padding entry is dispatched to: nowhere.
inline constexpr SlotId no_slot{-1};

/// Iterates `first, first+1, …, last-1`: `for (ExpertId e : ids<ExpertId>(num_experts))`.
template <class Id>
class IdRange {
 public:
  class iterator {
   public:
    constexpr explicit iterator(Id at) noexcept : at_(at) {}
    constexpr Id operator*() const noexcept { return at_; }
    constexpr iterator& operator++() noexcept {
      at_ = at_.next();
      return *this;
    }
    friend constexpr bool operator==(iterator, iterator) noexcept = default;

   private:
    Id at_;
  };

  constexpr IdRange(Id first, Id last) noexcept : first_(first), last_(last) {}
  [[nodiscard]] constexpr iterator begin() const noexcept { return iterator(first_); }
  [[nodiscard]] constexpr iterator end() const noexcept { return iterator(last_); }
  [[nodiscard]] constexpr std::size_t size() const noexcept { return last_.index() - first_.index(); }
  [[nodiscard]] constexpr bool contains(Id id) const noexcept { return first_ <= id && id < last_; }
  [[nodiscard]] constexpr Id first() const noexcept { return first_; }

 private:
  Id first_;
  Id last_;
};

/// All ids below `count`.
template <class Id, class Count>
[[nodiscard]] constexpr IdRange<Id> ids(Count count) noexcept {
  return {Id{0}, Id{static_cast<typename Id::rep>(count)}};
}

/// `count` ids from `first` on.
template <class Id, class Count>
[[nodiscard]] constexpr IdRange<Id> ids(Id first, Count count) noexcept {
  return {first, Id{static_cast<typename Id::rep>(first.value() + static_cast<typename Id::rep>(count))}};
}

}  // namespace trimtab

template <class Tag, class Rep>
struct std::hash<trimtab::StrongId<Tag, Rep>> {
  std::size_t operator()(trimtab::StrongId<Tag, Rep> id) const noexcept {
    return std::hash<Rep>{}(id.value());
  }
};
