// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/nccl/nccl_task.h>

#include <tutti/backend/registry.h>
#include <tutti/distributed/threads/spinning_wait.h>

namespace tutti {

void NcclTask::join(Device device) {
  if (!spin_until([&] { return launched(); })) wait_past(0);
  set_joined();
  if (finished() && error()) std::rethrow_exception(error());
  for (const auto& [where, done] : done_)
    if (where == device) compute_stream(device).wait(done);
}

std::vector<Event> NcclTask::on_streams() const {
  std::vector<Event> events;
  if (!launched()) return events;
  for (const auto& [where, done] : done_) events.push_back(done);
  return events;
}

}  // namespace tutti
