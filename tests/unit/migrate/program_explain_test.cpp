// SPDX-License-Identifier: Apache-2.0
#include <trimtab/migrate/program.hpp>

#include "support/placements.hpp"

#include <gtest/gtest.h>

namespace trimtab::test {
namespace {

/// The hash depends on the byte order of the machine, so it is left out.
std::string without_hash(std::string text) {
  const std::size_t end = text.find(':');
  return end == std::string::npos ? text : "program" + text.substr(end);
}

TEST(ExplainProgram, SaysWhoSendsWhatToWhomInWhichOrder) {
  const Placement from = one_layer(5, {0, 1, 2, 3, 4, 2});
  const Placement to = one_layer(5, {3, 2, 0, 1, 4, -1});
  const Topology topology = uniform(3, 3, 6);
  const std::vector<std::size_t> bytes{100};
  const ProgramInput input{Epoch{7}, from, to, topology, bytes, 128, 1000};
  const auto program = build_program(input);
  ASSERT_TRUE(program);
  EXPECT_EQ(without_hash(explain(*program, input)), R"(program: epoch 7 to 9 in 2 steps
  transfers 4, relays 0, copies 0, reuses 0, exchanges 0, vacated 1
  bytes across ranks 400 (lower bound 400), of these across nodes 400 (lower bound 400)
  bytes inside ranks 0, of these 0 for exchanges that the budgets force
  staging per rank at most 128 of 128 bytes
  exchanged per rank and step at most 100 of 1000 bytes
step 1 of 2, to epoch 8: transfers 2, relays 0, copies 0, reuses 0, exchanges 0, vacated 0, rounds 1
  rank 0: staging 128, exchanged 100, sent 100, received 100 bytes
  rank 1: staging 128, exchanged 100, sent 100, received 100 bytes
  round 0
    layer 0, expert 3: rank 1 slot 3 -> rank 0 slot 0 (transfer)
    layer 0, expert 0: rank 0 slot 0 -> rank 1 slot 2 (transfer)
step 2 of 2, to epoch 9: transfers 2, relays 0, copies 0, reuses 0, exchanges 0, vacated 1, rounds 1
  rank 0: staging 128, exchanged 100, sent 100, received 100 bytes
  rank 1: staging 128, exchanged 100, sent 0, received 100 bytes
  rank 2: staging 0, exchanged 0, sent 100, received 0 bytes
  round 0
    layer 0, expert 2: rank 2 slot 5 -> rank 0 slot 1 (transfer)
    layer 0, expert 1: rank 0 slot 1 -> rank 1 slot 3 (transfer)
  layer 0: slot 5 becomes vacant
)");
}

TEST(ExplainProgram, ShowsRelaysAndForcedExchanges) {
  const Placement from = one_layer(5, {0, 1, 2, 3, 4, 4, -1, 4});
  const Placement to = one_layer(5, {1, 0, 2, 3, 2, 4, 2, -1});
  const Topology topology = uniform(4, 2, 8);
  const std::vector<std::size_t> bytes{100};
  const ProgramInput input{Epoch{7}, from, to, topology, bytes, 128};
  const auto program = build_program(input);
  ASSERT_TRUE(program);
  EXPECT_EQ(without_hash(explain(*program, input)), R"(program: epoch 7 to 8 in 1 steps
  transfers 1, relays 1, copies 0, reuses 0, exchanges 1, vacated 1
  bytes across ranks 200 (lower bound 200), of these across nodes 100 (lower bound 100)
  bytes inside ranks 200, of these 0 for exchanges that the budgets force
  staging per rank at most 128 of 128 bytes
  exchanged per rank and step at most 200 bytes, no limit
step 1 of 1, to epoch 8: transfers 1, relays 1, copies 0, reuses 0, exchanges 1, vacated 1, rounds 2
  rank 0: staging 128, exchanged 200, sent 0, received 0 bytes
  rank 1: staging 0, exchanged 0, sent 100, received 0 bytes
  rank 2: staging 128, exchanged 100, sent 100, received 100 bytes
  rank 3: staging 128, exchanged 100, sent 0, received 100 bytes
  round 0
    layer 0, expert 2: rank 1 slot 2 -> rank 2 slot 4 (transfer)
  round 1
    layer 0, expert 2: rank 2 slot 4 -> rank 3 slot 6 (relay of what is staged)
  inside ranks
    layer 0, expert 1: rank 0 slot 1 -> rank 0 slot 0 (copy)
    layer 0, expert 0: rank 0 slot 0 -> rank 0 slot 1 (what the slot gave up)
  layer 0: slot 7 becomes vacant
)");
}

TEST(ExplainProgram, PutsTheMovesOfARoundTogether) {
  const Placement from = one_layer(6, {0, 1, 2, 3, 4, 5});
  const Placement to = one_layer(6, {2, 4, 0, 3, 1, 5});  // Rank 0 receives twice and sends twice.
  const Topology topology = uniform(3, 1, 6);
  const std::vector<std::size_t> bytes{100};
  const ProgramInput input{Epoch{7}, from, to, topology, bytes, 256};
  const auto program = build_program(input);
  ASSERT_TRUE(program);
  const std::string text = explain(*program, input);
  EXPECT_NE(text.find(R"(  round 0
    layer 0, expert 4: rank 2 slot 4 -> rank 0 slot 1 (transfer)
    layer 0, expert 0: rank 0 slot 0 -> rank 1 slot 2 (transfer)
  round 1
    layer 0, expert 2: rank 1 slot 2 -> rank 0 slot 0 (transfer)
    layer 0, expert 1: rank 0 slot 1 -> rank 2 slot 4 (transfer)
)"),
            std::string::npos)
      << text;
}

TEST(ExplainProgram, OfNothingIsShort) {
  const Placement same = one_layer(2, {0, 1});
  const Topology topology = uniform(2, 1, 2);
  const std::vector<std::size_t> bytes{100};
  const ProgramInput input{Epoch{7}, same, same, topology, bytes, 128};
  const auto program = build_program(input);
  ASSERT_TRUE(program);
  EXPECT_EQ(without_hash(explain(*program, input)), R"(program: epoch 7 to 7 in 0 steps
  transfers 0, relays 0, copies 0, reuses 0, exchanges 0, vacated 0
  bytes across ranks 0 (lower bound 0), of these across nodes 0 (lower bound 0)
  bytes inside ranks 0, of these 0 for exchanges that the budgets force
  staging per rank at most 0 of 128 bytes
  exchanged per rank and step at most 0 bytes, no limit
)");
}

}  // namespace
}  // namespace trimtab::test
