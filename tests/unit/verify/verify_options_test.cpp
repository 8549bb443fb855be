// SPDX-License-Identifier: Apache-2.0
#include "verify/verify_options.hpp"

#include <gtest/gtest.h>

namespace trimtab::verify {
namespace {

TEST(FaultKinds, AreNamedOneByOneOrTogether) {
  EXPECT_EQ(fault_kinds_named("none").value(), FaultKinds());
  EXPECT_EQ(fault_kinds_named("all")->size(), std::size(all_fault_kinds));
  EXPECT_EQ(fault_kinds_named("delay,drop").value(), (FaultKinds{FaultKind::drop, FaultKind::delay}));
}

TEST(FaultKinds, AreWrittenAsTheyAreRead) {
  for (FaultKind kind : all_fault_kinds)
    EXPECT_EQ(fault_kinds_named(to_string(kind)).value(), FaultKinds{kind});
  for (const char* names : {"none", "all", "drop,jump", "corrupt,fail,pause", "kill,stop,cut"})
    EXPECT_EQ(to_string(fault_kinds_named(names).value()), names);
}

TEST(FaultKinds, RefuseAnUnknownName) {
  for (const char* names : {"dorp", "drop,", "", "drop,all"}) EXPECT_FALSE(fault_kinds_named(names)) << names;
  EXPECT_EQ(fault_kinds_named("drop,dorp").error().message,
            "'dorp' is not all, none or any of drop, corrupt, duplicate, delay, reorder, fail, pause, jump, "
            "kill, stop, cut");
}

TEST(LayoutFamilies, AreNamed) {
  for (LayoutFamily family : {LayoutFamily::dense, LayoutFamily::strided, LayoutFamily::nz})
    EXPECT_EQ(layout_family_named(to_string(family)), family);
  EXPECT_EQ(layout_family_named("NZ"), std::nullopt);
}

TEST(Replay, NamesTheSeedAndWhatWasGiven) {
  EXPECT_EQ(replay_arguments(7, {}), "--seed 7 --campaign 1");
  CaseOptions options;
  options.ranks = 4;
  options.nodes = 2;
  options.faults = {FaultKind::drop};
  options.layout = LayoutFamily::nz;
  options.deadline = std::chrono::milliseconds(250);
  options.staging_budget_bytes = 4096;
  options.stall_budget_bytes = 512;
  EXPECT_EQ(replay_arguments(8, options),
            "--seed 8 --campaign 1 --ranks 4 --nodes 2 --faults drop --layout nz --deadline-ms 250 "
            "--staging-budget 4096 --stall-budget 512");
}

}  // namespace
}  // namespace trimtab::verify
