// SPDX-License-Identifier: Apache-2.0
// Which engine a group of CUDA devices gets.
#include <tutti/distributed/engines/make_communicator.h>

#include <tutti/backend/error.h>
#include <tutti/distributed/engines/nccl/nccl_communicator.h>
#include <tutti/tests/distributed/engines/nccl/recording_nccl.h>
#include <tutti/tests/distributed/engines/peer/peer_machine.h>

#include <doctest/doctest.h>

using namespace tutti;
using namespace tutti::testing;

namespace {

template <class Engine> bool gets(const std::vector<Device>& devices) {
  const auto engine = make_communicator(devices);
  return dynamic_cast<const Engine*>(engine.get()) != nullptr;
}

}  // namespace

TEST_CASE("engine choice: one GPU needs no NCCL; several do, but for devices that share one") {
  PeerMachine machine(4, 2);
  const RecordingNccl nccl;
  CHECK(gets<PeerCommunicator>({cuda(0)}));
  CHECK(gets<PeerCommunicator>({cuda(0), cuda(1)}));
  CHECK(gets<NcclCommunicator>({cuda(0), cuda(2)}));
  CHECK(gets<PeerCommunicator>({cuda(0), cuda(1), cuda(2)}));
  CHECK_THROWS_WITH_AS(make_communicator(std::vector<Device>{cuda(0), cpu(0)}),
                       doctest::Contains("no engine connects cuda:0 and cpu:0"), DeviceError);
}

TEST_CASE("engine choice: NCCL refuses two devices on one GPU by name") {
  PeerMachine machine(2);
  const RecordingNccl nccl;
  CHECK_THROWS_WITH_AS(NcclCommunicator({cuda(0), cuda(1)}), doctest::Contains("cuda:0 and cuda:1 lie on one GPU"),
                       DeviceError);
}
