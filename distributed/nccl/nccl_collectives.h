// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/communicator.h>

namespace tutti {

class NcclGroup;
class NcclTask;

// How requests become NCCL calls. Called on the communicator's thread; each queues its work on the communication
// streams behind the request's inputs, and gives the task what it uses and where it is done.

/// Every device of the group takes part: one without a slice sends zeros, and what it receives is dropped.
void launch_all_reduce(const AllReduceRequest&, NcclGroup&, NcclTask&);

/// In a group of several processes the request numbers its arrays by rank; those of other processes are undefined.
/// Parts that sum all members' inputs are NCCL's own collectives. Others (copies, and max and min, where NCCL loses
/// NaN) are sent to the targets' devices, and combined there in the sources' order.
void launch_collective(const CollectiveRequest&, NcclGroup&, NcclTask&);

}  // namespace tutti
