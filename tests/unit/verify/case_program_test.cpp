// SPDX-License-Identifier: Apache-2.0
#include "verify/case_program.hpp"

#include <gtest/gtest.h>

namespace trimtab::verify {
namespace {

/// A case whose first program has several steps.
Case several_steps() {
  for (std::uint64_t seed = 0;; ++seed) {
    Case drawn = draw_case(seed, {}).value();
    const Result<Program> program = make_program(drawn, Epoch{0}, drawn.first, drawn.targets[0], {});
    if (program && program->steps.size() > 2 && !program->steps[1].moves.empty()) return drawn;
  }
}

class CaseProgram : public testing::Test {
 protected:
  std::optional<Violation> check() const {
    return check_program(drawn, program, drawn.first, drawn.targets[0]);
  }

  Case drawn = several_steps();
  Program program = *make_program(drawn, Epoch{0}, drawn.first, drawn.targets[0], {});
};

TEST_F(CaseProgram, IsSound) { EXPECT_FALSE(check()); }

TEST_F(CaseProgram, IsToldToTheStory) {
  std::string told;
  ASSERT_TRUE(make_program(drawn, Epoch{0}, drawn.first, drawn.targets[0],
                           [&](const std::string& line) { told += line; }));
  EXPECT_NE(told.find("step 2 of"), std::string::npos);
}

TEST_F(CaseProgram, MustEndWhereItWasAskedTo) {
  program.steps.pop_back();
  EXPECT_EQ(check()->check, Check::coverage);
}

TEST_F(CaseProgram, MustServeEveryExpertOnTheWay) {
  Step step;  // Gives up all slots of an expert.
  for (SlotId slot : drawn.first.replicas(LayerId{0}, ExpertId{0}))
    step.vacations.push_back({LayerId{0}, slot});
  program.steps.insert(program.steps.begin(), step);
  const auto found = check();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->check, Check::coverage);
  EXPECT_EQ(found->what, "epoch 0: after step 0: layer 0: expert 0 has no slot");
}

TEST_F(CaseProgram, MustFitTheStagingBudget) {
  program.staging_bytes = drawn.engine.staging_budget_bytes + 1;
  EXPECT_EQ(check()->check, Check::staging);
}

TEST_F(CaseProgram, MustMoveNoMoreThanItsBound) {
  program.cost.bytes_moved = program.cost.bytes_moved_bound + 1;
  program.cost.exchanges_forced = 0;
  EXPECT_EQ(check()->check, Check::bytes_moved);
}

}  // namespace
}  // namespace trimtab::verify
