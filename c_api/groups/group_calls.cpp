// SPDX-License-Identifier: Apache-2.0
#include <tutti/c_api.h>

#include <tutti/backend/raise.h>
#include <tutti/c_api/calls/handles.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/distributed/process_group.h>
#include <tutti/train/device_threads.h>

#include <exception>
#include <optional>

using namespace tutti;
using namespace tutti::c_api;

struct tutti_group {
  explicit tutti_group(const std::vector<Device>& devices) : sync(devices) {}
  tutti_group(ProcessGroup others, const std::vector<Device>& devices)
      : processes(std::move(others)), sync(*processes, devices) {}

  std::optional<ProcessGroup> processes;  // outlives the group
  GradientSync sync;
  std::vector<std::unique_ptr<tutti_model>> replicas;  // one for each device, or none yet
  bool broken = false;                                 // some devices have their replicas, others have none
};

struct tutti_step {
  Step* step;
  bool synchronised = false;
  std::exception_ptr failure;  // of a call for the step, whatever the caller's function returns
};

namespace {

std::vector<Device> devices_given(const char* const* devices, std::size_t count) {
  if (count == 0) refuse("no devices");
  require(devices, "devices");
  std::vector<Device> named;
  for (std::size_t d = 0; d < count; ++d) named.push_back(device_named(devices[d]));
  return named;
}

Device device_of(const tutti_group& group, std::size_t device) {
  const std::vector<Device>& devices = group.sync.devices();
  if (device >= devices.size())
    refuse(fmt::format("no device {}; this process has {} in the group", device, devices.size()));
  return devices[device];
}

void refuse_broken(const tutti_group& group) {
  if (group.broken) refuse("tutti_group_replicate has failed for this group; make another one");
}

tutti_model& replica_of(tutti_group& group, std::size_t device) {
  device_of(group, device);
  refuse_broken(group);
  if (group.replicas.empty()) refuse("the group has no replicas; call tutti_group_replicate first");
  return *group.replicas[device];
}

/// Runs what synchronises a step, and keeps its failure.
template <class Body> void run_for(tutti_step& step, Body&& body) {
  try {
    body();
    step.synchronised = true;
  } catch (...) {
    step.failure = std::current_exception();
    throw;
  }
}

}  // namespace

tutti_status tutti_group_create(const char* const* devices, std::size_t count, tutti_group** result) {
  return guarded("tutti_group_create", [&] {
    tutti_group*& made = empty_result(result);
    made = new tutti_group(devices_given(devices, count));
  });
}

tutti_status tutti_group_from_environment(const char* const* devices, std::size_t count, tutti_group** result) {
  return guarded("tutti_group_from_environment", [&] {
    tutti_group*& made = empty_result(result);
    const std::vector<Device> named = devices_given(devices, count);
    made = new tutti_group(ProcessGroup::from_environment(), named);
  });
}

void tutti_group_free(tutti_group* group) { delete group; }

tutti_status tutti_group_world(const tutti_group* group, std::size_t* devices, std::size_t* first) {
  return guarded("tutti_group_world", [&] {
    const GradientSync& sync = required(group, "group").sync;
    require(devices, "devices");
    require(first, "first");
    const WorldShare world = sync.world();
    *devices = world.devices == 0 ? sync.devices().size() : world.devices;
    *first = world.first;
  });
}

tutti_status tutti_group_replicate(tutti_group* group, const tutti_model* model) {
  return guarded("tutti_group_replicate", [&] {
    tutti_group& all = required(group, "group");
    const AnyModel& original = required(model, "model").model;
    refuse_broken(all);
    if (!all.replicas.empty()) refuse("the group has its replicas");
    const std::vector<Device>& devices = all.sync.devices();
    std::vector<std::unique_ptr<tutti_model>> replicas;
    for (const Device device : devices)
      replicas.push_back(std::make_unique<tutti_model>(original.clone_to(device), true));
    all.replicas = std::move(replicas);  // stays with what is attached
    all.broken = true;
    for (std::size_t d = 0; d < devices.size(); ++d) all.sync.attach(devices[d], all.replicas[d]->model.module());
    all.broken = false;
  });
}

tutti_status tutti_group_replica(tutti_group* group, std::size_t device, tutti_model** replica) {
  return guarded("tutti_group_replica", [&] {
    tutti_group& all = required(group, "group");
    tutti_model*& found = required(replica, "replica");
    found = nullptr;
    found = &replica_of(all, device);
  });
}

tutti_status tutti_group_on_every_device(tutti_group* group, tutti_device_function function, void* context) {
  return guarded("tutti_group_on_every_device", [&] {
    tutti_group& all = required(group, "group");
    if (function == nullptr) refuse("function is NULL");
    replica_of(all, 0);
    on_every_device(all.sync, [&](std::size_t device) {
      forget_failure();
      const int returned = function(context, device, &replica_of(all, device));
      check_returned(returned, "on " + to_string(all.sync.devices()[device]));
    });
  });
}

tutti_status tutti_group_step(tutti_group* group, std::size_t device, double weight, tutti_step_function function,
                              void* context) {
  return guarded("tutti_group_step", [&] {
    tutti_group& all = required(group, "group");
    if (function == nullptr) refuse("function is NULL");
    tutti_model& replica = replica_of(all, device);
    const Device place = device_of(all, device);
    all.sync.step(place, weight, [&](Step& opened) {
      tutti_step step{&opened, false, nullptr};
      forget_failure();
      check_returned(function(context, device, &replica, &step), "in a step of " + to_string(place));
      if (step.failure) std::rethrow_exception(step.failure);
      if (!step.synchronised)
        refuse("the step's function returned 0 without tutti_step_backward or tutti_step_synchronize");
    });
  });
}

tutti_status tutti_step_backward(tutti_step* step, const tutti_tensor* loss) {
  return guarded("tutti_step_backward", [&] {
    tutti_step& opened = required(step, "step");
    run_for(opened, [&] { opened.step->backward(value_of(loss, "loss")); });
  });
}

tutti_status tutti_step_synchronize(tutti_step* step) {
  return guarded("tutti_step_synchronize", [&] {
    tutti_step& opened = required(step, "step");
    run_for(opened, [&] {
      opened.step->synchronize();
      opened.step->join();
    });
  });
}

tutti_status tutti_group_leave(tutti_group* group, std::size_t device) {
  return guarded("tutti_group_leave", [&] {
    tutti_group& all = required(group, "group");
    all.sync.leave(device_of(all, device));
  });
}
