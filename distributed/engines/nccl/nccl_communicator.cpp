// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/nccl/nccl_communicator.h>

#include <tutti/backend/cuda/runtime/cuda_stream.h>
#include <tutti/backend/cuda/runtime/gpu_mapping.h>
#include <tutti/backend/process/deadline.h>
#include <tutti/backend/process/start_thread.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>
#include <tutti/distributed/collectives/gradient_sums.h>
#include <tutti/distributed/engines/nccl/nccl_collectives.h>
#include <tutti/distributed/engines/nccl/nccl_group.h>
#include <tutti/distributed/engines/nccl/nccl_task.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace tutti {

namespace {

std::vector<Device> each_on_its_own_gpu(std::vector<Device> devices) {
  for (const Device device : devices)
    for (const Device other : devices)
      if (device < other && cuda_runtime::gpu_of(device) == cuda_runtime::gpu_of(other))
        raise<DeviceError>("[nccl] {} and {} lie on one GPU, where NCCL connects one device only", to_string(device),
                           to_string(other));
  return devices;
}

std::string name_of(const AllReduceRequest& request) {
  const Array& first = request.slices.front().gradient;
  return fmt::format("the all_reduce of {} {}{}", first.size(), to_string(first.dtype()),
                     request.parameter.empty() ? "" : fmt::format(" from parameter \"{}\" on", request.parameter));
}

/// With what is known of where they are.
std::string late_text(const std::vector<Device>& devices) {
  std::string text;
  for (const Device device : devices) {
    const auto& stream = static_cast<const CudaStream&>(compute_stream(device));
    text += fmt::format("{}{} has not come to it (in flight since the last synchronisation: {})",
                        text.empty() ? "" : "; ", to_string(device), stream.in_flight());
  }
  return text;
}

std::string hang_text(const NcclTask& task) {
  if (const std::vector<Device> late = NcclTask::not_past(task.begun()); !late.empty()) return late_text(late);
  std::string running;
  for (const Device device : NcclTask::not_past(task.done()))
    running += fmt::format("{}{}", running.empty() ? "" : ", ", to_string(device));
  return fmt::format("all devices here have come to it, but it has not ended on {}", running);
}

}  // namespace

NcclCommunicator::NcclCommunicator(std::vector<Device> devices, std::chrono::milliseconds deadline,
                                   std::chrono::milliseconds fail_after)
    : devices_(each_on_its_own_gpu(std::move(devices))),
      deadline_(bounded_wait<SyncError>("nccl, deadline", deadline)),
      fail_after_(bounded_wait<SyncError>("nccl, fail_after", fail_after)),
      members_(std::make_shared<const std::vector<Device>>(devices_)),
      thread_(start_thread<SyncError>("nccl", [this] { run(); })) {}

NcclCommunicator::NcclCommunicator(std::vector<Device> devices, NcclMembership membership,
                                   std::chrono::milliseconds deadline, std::chrono::milliseconds fail_after,
                                   std::shared_ptr<LaunchOrder> order)
    : devices_(each_on_its_own_gpu(std::move(devices))),
      deadline_(bounded_wait<SyncError>("nccl, deadline", deadline)),
      fail_after_(bounded_wait<SyncError>("nccl, fail_after", fail_after)),
      membership_(std::make_unique<NcclMembership>(std::move(membership))),
      order_(std::move(order)),
      members_(std::make_shared<const std::vector<Device>>(devices_)) {
  membership_->look = [this] { throw_if_ended(); };
  thread_ = start_thread<SyncError>("nccl", [this] { run(); });
  if (order_) order_->on_launch([this](Sequence sequence) { launch_held(sequence); });
}

NcclCommunicator::~NcclCommunicator() {
  if (order_) order_->on_launch(nullptr);
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  requested_.notify_one();
  thread_.join();
  for (auto& waiting : held_)  // it was never launched
    for (const Held& held : waiting)
      held.task->end(std::make_exception_ptr(SyncError(fmt::format("[nccl] {} came too late", held.task->name()))));
}

std::shared_ptr<CollectiveTask> NcclCommunicator::all_reduce(AllReduceRequest request) {
  check_slices(request);
  if (!enabled()) return std::make_shared<FinishedTask>();
  std::string name = name_of(request);
  return enqueue(std::move(name), Sequence::round, [request = std::move(request)](NcclGroup& group, NcclTask& task) {
    launch_all_reduce(request, group, task);
  });
}

std::shared_ptr<CollectiveTask> NcclCommunicator::reduce_sparse(SparseReduction request) {
  if (!enabled()) return std::make_shared<FinishedTask>();
  std::string name = fmt::format("the reduction of parameter \"{}\"", request.parameter.name);
  return enqueue(std::move(name), Sequence::round, [request = std::move(request)](NcclGroup& group, NcclTask& task) {
    launch_sparse(request, group, task);
  });
}

std::shared_ptr<CollectiveTask> NcclCommunicator::collective(CollectiveRequest request) {
  std::string name = request.name.empty() ? "a collective" : request.name;
  const Sequence sequence = request.sequence;
  return enqueue(std::move(name), sequence, [request = std::move(request)](NcclGroup& group, NcclTask& task) {
    launch_collective(request, group, task);
  });
}

std::shared_ptr<CollectiveTask> NcclCommunicator::enqueue(std::string name, Sequence sequence,
                                                          std::function<void(NcclGroup&, NcclTask&)> launch) {
  std::shared_ptr<NcclTask> task;
  {
    const std::lock_guard lock(mutex_);
    if (ended_) std::rethrow_exception(ended_);
    if (untold_) std::rethrow_exception(std::exchange(untold_, nullptr));
    task = std::make_shared<NcclTask>(std::move(name), std::move(launch), members_);
    if (order_)
      held_[static_cast<std::size_t>(sequence)].push_back({task, std::chrono::steady_clock::now()});
    else
      queue_.push_back(task);
  }
  requested_.notify_one();
  if (order_) order_->say(sequence);
  return task;
}

void NcclCommunicator::regroup(std::span<const Member> members) {
  std::vector<Device> devices;
  for (const Member& member : members) devices.push_back(member.device);
  auto shared = std::make_shared<const std::vector<Device>>(std::move(devices));
  const std::lock_guard lock(mutex_);
  members_ = std::move(shared);
}

// --- the thread

void NcclCommunicator::run() {
  constexpr auto kLook = std::chrono::milliseconds(1);       // how often what runs is looked at
  constexpr auto kLookHeld = std::chrono::milliseconds(20);  // and what is not launched yet
  std::unique_lock lock(mutex_);
  std::optional<std::chrono::steady_clock::time_point> until;  // for what still runs at the end
  StandstillWatch standstill(fail_after_, fail_after_);
  while (true) {
    standstill.skip_to(std::chrono::steady_clock::now());
    const auto to_end = [&] { return ended_ && group_ && !group_->stopped(); };
    const auto awake = [&] { return !queue_.empty() || (stopping_ && !until) || to_end(); };
    if (!in_flight_.empty() || stopping_)
      requested_.wait_for(lock, kLook, awake);
    else if (order_ && !(held_[0].empty() && held_[1].empty()))
      requested_.wait_for(lock, std::min(kLookHeld, standstill.period()), awake);
    else
      requested_.wait(lock, [&] { return awake() || (order_ && !(held_[0].empty() && held_[1].empty())); });
    note_standstill(standstill);
    std::deque<std::shared_ptr<NcclTask>> requests = std::exchange(queue_, {});
    if (stopping_ && !until) until = std::chrono::steady_clock::now() + deadline_;
    lock.unlock();
    for (; !requests.empty(); requests.pop_front()) launch(requests.front());
    watch();
    if (order_) give_up_held();
    if (until && std::chrono::steady_clock::now() > *until) give_up(deadline_);
    if (until && in_flight_.empty()) break;
    lock.lock();
  }
  group_ = nullptr;
}

void NcclCommunicator::launch(const std::shared_ptr<NcclTask>& task) {
  try {
    throw_if_ended();
    if (!group_ || group_->stopped() || group_->devices() != task->members()) connect(task->members());
    task->launch(*group_);
    if (in_flight_.empty()) oldest_since_ = std::chrono::steady_clock::now();
    in_flight_.push_back(task);
  } catch (...) {
    std::exception_ptr error = std::current_exception();
    const bool by_nccl = !group_ || group_->broken();
    if (membership_) {  // other processes may have launched theirs
      if (by_nccl) error = verdict_on(error);
      end_all(error);
    }
    if (membership_ || by_nccl) fail_in_flight(error);
    order_behind_queued();  // what this one has queued, NCCL's thread until it was stopped, may still use its arrays
    task->end(error);
  }
}

// What the devices still do for the group before is not taken from them.
void NcclCommunicator::connect(const std::vector<Device>& devices) {
  if (group_ && !group_->stopped()) finish_in_flight();
  group_ = connected(devices);
}

std::unique_ptr<NcclGroup> NcclCommunicator::connected(const std::vector<Device>& devices) {
  if (membership_) {
    if (std::exchange(met_, true))
      raise<SyncError>("[nccl] the group of {} devices of several processes has failed: they have to meet anew",
                       membership_->world);
    return std::make_unique<NcclGroup>(devices, *membership_, deadline_);
  }
  std::unique_ptr<NcclGroup> before = std::move(group_);
  if (before && before->can_shrink_to(devices)) try {
      return before->shrink(devices);
    } catch (const SyncError&) {
      // what was left of it was of no use
    }
  const std::string lacks = before ? before->version().lacks() : "";
  before = nullptr;
  try {
    return std::make_unique<NcclGroup>(devices, deadline_);
  } catch (const SyncError& error) {
    if (lacks.empty()) throw;
    raise<SyncError>("{}, when the devices had to connect anew, as {}", error.what(), lacks);
  }
}

void NcclCommunicator::finish_in_flight() {
  const auto until = std::chrono::steady_clock::now() + deadline_;
  for (watch(); !in_flight_.empty(); watch()) {
    if (std::chrono::steady_clock::now() > until) return give_up(deadline_);
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

// Tasks end in the order in which they were launched, as they do on the devices.
void NcclCommunicator::watch() {
  if (const std::exception_ptr error = ended()) {
    if (!in_flight_.empty() || (group_ && !group_->stopped())) fail_in_flight(error);
    return;
  }
  bool by_nccl = true;
  try {
    if (group_ && !group_->stopped() && !in_flight_.empty()) group_->check_running("nccl");
    by_nccl = false;
    for (; !in_flight_.empty() && in_flight_.front()->all_done(); in_flight_.pop_front()) {
      for (const auto& [device, done] : in_flight_.front()->done()) done.synchronize();  // rethrows a device's error
      in_flight_.front()->end();
      oldest_since_ = std::chrono::steady_clock::now();
    }
  } catch (...) {
    std::exception_ptr error = std::current_exception();
    if (by_nccl) error = verdict_on(error);
    if (membership_) end_all(error);
    return fail_in_flight(error);
  }
  if (!in_flight_.empty() && std::chrono::steady_clock::now() - oldest_since_ > fail_after_) give_up(fail_after_);
}

void NcclCommunicator::give_up(std::chrono::milliseconds waited) {
  if (in_flight_.empty()) return;
  const NcclTask& oldest = *in_flight_.front();
  const auto error = std::make_exception_ptr(SyncError(
      fmt::format("[nccl] {} has not finished within {} ms: {}", oldest.name(), waited.count(), hang_text(oldest))));
  if (membership_) end_all(error);
  fail_in_flight(error);
}

// The devices' threads and other processes are told first: NCCL takes its time to end what does not end by itself.
void NcclCommunicator::fail_in_flight(const std::exception_ptr& error) {
  const auto told = tell_in_flight(error);
  if (group_) group_->stop();
  for (const auto& task : told) task->let_go();
}

// The devices may still use what the tasks keep: their memory is used again behind that. Without a pool it is given
// back when the devices are done, which may need the group to be stopped. No request comes between the end and what it
// shall hear: with other processes all has ended before, and what waits for a task may call `abort`, here.
std::deque<std::shared_ptr<NcclTask>> NcclCommunicator::tell_in_flight(const std::exception_ptr& error) {
  order_behind_queued();
  std::deque<std::shared_ptr<NcclTask>> told = std::exchange(in_flight_, {});
  std::unique_lock lock(mutex_, std::defer_lock);
  if (!membership_) lock.lock();
  for (const auto& task : told) {
    task->end_keeping(error);
    if (!membership_ && task->joined()) untold_ = error;
  }
  return told;
}

// No device is waited for, as it may hang: the order between its streams is enough (see CudaBackend).
void NcclCommunicator::order_behind_queued() const noexcept {
  for (const Device device : devices_) try {
      compute_stream(device).wait(backend_for(device).communication_stream(device).record());
    } catch (...) {
      // known already, or the device is lost and runs nothing
    }
}

}  // namespace tutti
