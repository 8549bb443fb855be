// SPDX-License-Identifier: Apache-2.0
#include "moe/traffic.hpp"

#include "support/arrived.hpp"

#include <trimtab/transport/inproc.hpp>

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace trimtab::moe {
namespace {

using test::Bytes;

/// Rank 0 of four ranks on two nodes.
class Counted : public testing::Test {
 protected:
  Counted() : ends_(*make_inproc_transports(4)) {
    ends_[0] = count_traffic(std::move(ends_[0]), topology_, traffic_);
  }

  void send(Rank to, const Bytes& message) {
    const Leg leg = send_leg(to, Tag{1}, message);
    EXPECT_TRUE(ends_[0]->post({&leg, 1}));
  }

  const Topology topology_ = *Topology::make_uniform(4, 2, 4);
  Traffic traffic_;
  std::vector<std::unique_ptr<Transport>> ends_;
};

TEST_F(Counted, BytesAreToldByTheNodeOfTheReceiver) {
  send(Rank{1}, Bytes(3));
  send(Rank{2}, Bytes(10));
  send(Rank{3}, Bytes(100));
  EXPECT_EQ(traffic_.within_nodes, 3);
  EXPECT_EQ(traffic_.between_nodes, 110);
}

TEST_F(Counted, MessagesArriveUnchanged) {
  const Bytes message(10, std::byte{7});
  send(Rank{2}, message);
  EXPECT_EQ(test::arrived(*ends_[2], 10, Tag{1}), message);
}

TEST_F(Counted, WhatIsReceivedOrRefusedDoesNotCount) {
  Bytes memory(8);
  const Leg receive = receive_leg(Rank{2}, Tag{1}, memory);
  EXPECT_TRUE(ends_[0]->post({&receive, 1}));
  const Leg to_nobody = send_leg(Rank{9}, Tag{1}, memory);
  EXPECT_FALSE(ends_[0]->post({&to_nobody, 1}));
  ends_[0]->close();
  EXPECT_EQ(traffic_.within_nodes, 0);
  EXPECT_EQ(traffic_.between_nodes, 0);
}

}  // namespace
}  // namespace trimtab::moe
