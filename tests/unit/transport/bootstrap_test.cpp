// SPDX-License-Identifier: Apache-2.0
#include <trimtab/transport/bootstrap.hpp>

#include "transport/socket.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <thread>

namespace trimtab {
namespace {

using testing::HasSubstr;
using Blob = std::vector<std::byte>;
using Gathered = Result<std::vector<Blob>>;

Result<std::optional<Bootstrap>> find(const std::map<std::string, std::string>& variables) {
  return find_bootstrap([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(FindBootstrap, SaysNothingWhenTheEnvironmentDoes) {
  const auto found = find({{"HOME", "/root"}});
  ASSERT_TRUE(found);
  EXPECT_FALSE(found->has_value());
}

TEST(FindBootstrap, ReadsItsOwnVariables) {
  const auto found =
      find({{"TRIMTAB_BOOTSTRAP", "[::1]:7000"}, {"TRIMTAB_RANK", "2"}, {"TRIMTAB_NUM_RANKS", "3"}});
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->host, "::1");
  EXPECT_EQ((*found)->port, 7000);
  EXPECT_EQ((*found)->rank, Rank{2});
  EXPECT_EQ((*found)->num_ranks, 3);
  EXPECT_EQ((*found)->found_in, "TRIMTAB_RANK");
}

TEST(FindBootstrap, ReadsMpirunOnOneHost) {
  const auto found = find({{"OMPI_COMM_WORLD_RANK", "1"},
                           {"OMPI_COMM_WORLD_SIZE", "4"},
                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                           {"PMIX_NAMESPACE", "job-7"}});
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->host, "127.0.0.1");
  EXPECT_GE((*found)->port, 20'000);
  EXPECT_EQ((*found)->job, "job-7");
}

TEST(FindBootstrap, AsksForAnAddressUnderMpirunOverSeveralHosts) {
  const auto found = find({{"OMPI_COMM_WORLD_RANK", "1"},
                           {"OMPI_COMM_WORLD_SIZE", "4"},
                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                           {"PMIX_NAMESPACE", "job-7"}});
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Errc::invalid_argument);
  EXPECT_THAT(found.error().message, HasSubstr("TRIMTAB_BOOTSTRAP"));
}

TEST(FindBootstrap, TakesThePortAfterTorchrunsOwn) {
  const auto found =
      find({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "head"}, {"MASTER_PORT", "29500"}});
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->host, "head");
  EXPECT_EQ((*found)->port, 29'501);
}

TEST(FindBootstrap, TakesTheFirstNodeOfSlurm) {
  for (const auto& [list, first] : std::map<std::string, std::string>{
           {"n[03-04,7],z", "n03"}, {"n[5,7]", "n5"}, {"a,b[1-2]", "a"}, {"alone", "alone"}}) {
    const auto found = find(
        {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_JOB_ID", "12"}, {"SLURM_JOB_NODELIST", list}});
    ASSERT_TRUE(found && *found);
    EXPECT_EQ((*found)->host, first);
  }
}

TEST(FindBootstrap, NamesTheVariableThatIsWrong) {
  const std::map<std::string, std::string> right{
      {"TRIMTAB_BOOTSTRAP", "a:1"}, {"TRIMTAB_RANK", "0"}, {"TRIMTAB_NUM_RANKS", "2"}};
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"TRIMTAB_RANK", "2"},
                                                        {"TRIMTAB_RANK", "-1"},
                                                        {"TRIMTAB_RANK", "x"},
                                                        {"TRIMTAB_RANK", ""},
                                                        {"TRIMTAB_NUM_RANKS", "0"},
                                                        {"TRIMTAB_NUM_RANKS", "2x"},
                                                        {"TRIMTAB_BOOTSTRAP", "a"},
                                                        {"TRIMTAB_BOOTSTRAP", "a:0"},
                                                        {"TRIMTAB_BOOTSTRAP", "a:65536"},
                                                        {"TRIMTAB_BOOTSTRAP", ":1"}}) {
    auto variables = right;
    variables[name] = value;
    const auto found = find(variables);
    ASSERT_FALSE(found) << name << "=" << value;
    EXPECT_EQ(found.error().code, Errc::invalid_argument);
    EXPECT_THAT(found.error().message, HasSubstr(name + "=" + value));
  }
}

TEST(FindBootstrap, NamesTheVariableThatIsMissing) {
  const auto found = find({{"TRIMTAB_BOOTSTRAP", "a:1"}, {"TRIMTAB_RANK", "0"}});
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().message, HasSubstr("TRIMTAB_NUM_RANKS is not set"));
  const auto alone = find({{"TRIMTAB_BOOTSTRAP", "a:1"}});
  ASSERT_FALSE(alone);
  EXPECT_THAT(alone.error().message, HasSubstr("TRIMTAB_RANK"));
}

Blob blob_of(Rank rank) {
  return Blob(static_cast<std::size_t>(rank.value()) * 1000, static_cast<std::byte>(rank.value()));
}

/// Each on a thread of its own.
std::vector<Gathered> gather(const std::vector<Bootstrap>& ranks) {
  std::vector<Gathered> gathered(ranks.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      threads.emplace_back([&, i] { gathered[i] = bootstrap_all_gather(ranks[i], blob_of(ranks[i].rank)); });
    }
  }
  return gathered;
}

std::vector<Bootstrap> local(std::int32_t num_ranks,
                             std::chrono::milliseconds deadline = std::chrono::minutes(1)) {
  auto ranks = make_local_bootstraps(num_ranks);
  EXPECT_TRUE(ranks);
  for (Bootstrap& rank : *ranks) rank.deadline = deadline;
  return *ranks;
}

TEST(BootstrapAllGather, GivesEveryRankWhatAllGave) {
  for (std::int32_t num_ranks : {1, 2, 5}) {
    for (const Gathered& gathered : gather(local(num_ranks))) {
      ASSERT_TRUE(gathered) << gathered.error().message;
      ASSERT_EQ(gathered->size(), static_cast<std::size_t>(num_ranks));
      for (Rank rank : ids<Rank>(num_ranks)) EXPECT_EQ((*gathered)[rank.index()], blob_of(rank));
    }
  }
}

void expect_refused(const std::vector<Bootstrap>& ranks, const std::string& why) {
  for (const Gathered& gathered : gather(ranks)) {
    ASSERT_FALSE(gathered);
    EXPECT_EQ(gathered.error().code, Errc::invalid_argument) << gathered.error().message;
    EXPECT_THAT(gathered.error().message, HasSubstr(why));
  }
}

TEST(BootstrapAllGather, RefusesTwoThatClaimOneRank) {
  std::vector<Bootstrap> ranks = local(3);
  ranks[2].rank = Rank{1};
  expect_refused(ranks, "two processes say that they are rank 1");
}

TEST(BootstrapAllGather, RefusesAnotherNumberOfRanks) {
  std::vector<Bootstrap> ranks = local(2);
  ranks[1].num_ranks = 3;
  expect_refused(ranks, "of 3 ranks has come, here they are 2");
}

TEST(BootstrapAllGather, RefusesAnotherJob) {
  std::vector<Bootstrap> ranks = local(2);
  ranks[1].job = "yesterday's";
  expect_refused(ranks, "another job");
}

TEST(BootstrapAllGather, NamesTheRankThatDoesNotCome) {
  std::vector<Bootstrap> ranks = local(3, std::chrono::milliseconds(100));
  ranks.erase(ranks.begin() + 1);
  for (const Gathered& gathered : gather(ranks)) {
    ASSERT_FALSE(gathered);
    EXPECT_EQ(gathered.error().code, Errc::timeout);
    EXPECT_THAT(gathered.error().message, HasSubstr("rank 1"));
  }
}

TEST(BootstrapAllGather, SaysThatRankZeroCannotBeReached) {
  std::vector<Bootstrap> ranks = local(2, std::chrono::milliseconds(50));
  ranks[0].listening.reset();
  const Gathered gathered = bootstrap_all_gather(ranks[1], {});
  ASSERT_FALSE(gathered);
  EXPECT_EQ(gathered.error().code, Errc::timeout);
  EXPECT_THAT(gathered.error().message, HasSubstr("rank 0 could not be reached"));
}

TEST(BootstrapAllGather, IsNotDisturbedByStrangersWhoKnock) {
  const std::vector<Bootstrap> ranks = local(2);
  const Result<Socket> silent = Socket::connect("127.0.0.1", ranks[0].port, std::chrono::seconds(5));
  const Result<Socket> rude = Socket::connect("127.0.0.1", ranks[0].port, std::chrono::seconds(5));
  ASSERT_TRUE(silent && rude);
  const Blob nonsense(100, std::byte{'x'});
  ASSERT_TRUE(rude->send_some(nonsense));
  for (const Gathered& gathered : gather(ranks)) EXPECT_TRUE(gathered);
}

TEST(BootstrapAllGather, RefusesMoreThanAMebibyte) {
  const Gathered gathered = bootstrap_all_gather(local(1).front(), Blob((std::size_t{1} << 20) + 1));
  ASSERT_FALSE(gathered);
  EXPECT_EQ(gathered.error().code, Errc::invalid_argument);
}

}  // namespace
}  // namespace trimtab
