// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/nccl/nccl_group.h>

#include <tutti/backend/raise.h>

#include <algorithm>
#include <thread>
#include <utility>

// Looked up when the program is loaded, and there or not: an older library than the header's will do.
#ifdef NCCL_SHRINK_ABORT
#pragma weak ncclCommShrink
#endif
#ifdef NCCL_REVOKE_DEFAULT
#pragma weak ncclCommRevoke
#endif

namespace tutti {

using cuda_runtime::CurrentDevice;

namespace {

// Calls that the header may not declare; `NcclVersion` says so before.
ncclResult_t revoke([[maybe_unused]] ncclComm_t communicator) {
#ifdef NCCL_REVOKE_DEFAULT
  return ncclCommRevoke(communicator, NCCL_REVOKE_DEFAULT);
#else
  return ncclInvalidUsage;
#endif
}

void shrink_one([[maybe_unused]] Device device, [[maybe_unused]] ncclComm_t communicator,
                [[maybe_unused]] std::vector<int>& excluded, [[maybe_unused]] ncclComm_t& smaller,
                [[maybe_unused]] bool after_failure) {
#ifdef NCCL_SHRINK_ABORT
  const CurrentDevice current(device, "nccl");
  TUTTI_NCCL(device, "nccl",
             ncclCommShrink(communicator, excluded.data(), static_cast<int>(excluded.size()), &smaller, nullptr,
                            after_failure ? NCCL_SHRINK_ABORT : NCCL_SHRINK_DEFAULT));
#endif
}

}  // namespace

// Waits a little longer each time it is called.
class NcclGroup::Pause {
 public:
  explicit Pause(std::chrono::milliseconds deadline) : until_(Clock::now() + deadline) {}
  bool over() const { return Clock::now() > until_; }
  void rest() const {
    if (Clock::now() > asleep_from_) std::this_thread::sleep_for(std::chrono::microseconds(20));
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point asleep_from_ = Clock::now() + std::chrono::microseconds(100);
  Clock::time_point until_;
};

ncclUniqueId make_nccl_id(Device device) {
  (void)NcclVersion(device);
  ncclUniqueId id;
  TUTTI_NCCL(device, "nccl", ncclGetUniqueId(&id));
  return id;
}

NcclGroup::NcclGroup(std::vector<Device> devices, std::chrono::milliseconds deadline)
    : NcclGroup(devices, {make_nccl_id(devices.front()), static_cast<int>(devices.size()), 0}, deadline) {}

NcclGroup::NcclGroup(std::vector<Device> devices, const NcclMembership& membership, std::chrono::milliseconds deadline)
    : NcclGroup(devices, deadline, NcclVersion(devices.front())) {
  world_ = static_cast<std::size_t>(membership.world);
  first_rank_ = static_cast<std::size_t>(membership.first_rank);
  look_ = membership.look;
  if (membership.first_rank < 0 || first_rank_ + size() > world_)
    raise<SyncError>("[nccl] ranks {} to {} do not fit in a group of {}", membership.first_rank,
                     membership.first_rank + static_cast<int>(size()) - 1, membership.world);
  connect([&] {  // if it fails, the destructor aborts what there is
    for (std::size_t place = 0; place < size(); ++place) {
      const CurrentDevice current(devices_[place], "nccl");
      ncclConfig_t configuration = NCCL_CONFIG_INITIALIZER;
      configuration.blocking = 0;
      TUTTI_NCCL(devices_[place], "nccl",
                 ncclCommInitRankConfig(&communicators_[place], membership.world, membership.id,
                                        membership.first_rank + static_cast<int>(place), &configuration));
    }
  });
}

NcclGroup::NcclGroup(std::vector<Device> devices, std::chrono::milliseconds deadline, NcclVersion version)
    : devices_(std::move(devices)),
      deadline_(deadline),
      version_(version),
      world_(devices_.size()),
      first_rank_(0),
      communicators_(devices_.size(), nullptr) {}

NcclGroup::~NcclGroup() {
  if (!broken_ && !stopped_) finish();
  abort();  // what there still is
}

int NcclGroup::rank_of(Device device) const {
  return static_cast<int>(std::ranges::find(devices_, device) - devices_.begin());
}

void NcclGroup::begin(std::string_view operation) {
  if (stopped_) raise<SyncError>("[{}] the group of {} has failed", operation, to_string(devices_.front()));
  TUTTI_NCCL(devices_.front(), operation, ncclGroupStart());
}

void NcclGroup::end(std::string_view operation) { TUTTI_NCCL(devices_.front(), operation, ncclGroupEnd()); }

// A communicator that does not block answers at once and goes on connecting; what comes next has to wait for that.
void NcclGroup::wait_until_taken(std::string_view operation) const {
  const Pause pause(deadline_);
  for (std::size_t place = 0; place < size(); ++place)
    while (communicators_[place] != nullptr) {
      ncclResult_t state = ncclSuccess;
      TUTTI_NCCL(devices_[place], operation, ncclCommGetAsyncError(communicators_[place], &state));
      check_nccl(state, "asynchronous part", devices_[place], operation);
      if (state == ncclSuccess) break;
      if (look_) look_();
      if (pause.over())
        raise<SyncError>("[{}] {}: NCCL has not taken it within {} ms", operation, to_string(devices_[place]),
                         deadline_.count());
      pause.rest();
    }
}

void NcclGroup::check_running(std::string_view operation) const {
  for (std::size_t place = 0; place < size(); ++place) {
    ncclResult_t state = ncclSuccess;
    TUTTI_NCCL(devices_[place], operation, ncclCommGetAsyncError(communicators_[place], &state));
    check_nccl(state, "asynchronous part", devices_[place], operation);
  }
}

// A communicator may only be destroyed when all ranks' have been finalized, or it would wait for them within NCCL.
void NcclGroup::finish() noexcept {
  for (const ncclComm_t communicator : communicators_) {  // one may still connect, where another could not
    ncclResult_t state = ncclInProgress;
    if (communicator == nullptr || ncclCommGetAsyncError(communicator, &state) != ncclSuccess || state != ncclSuccess)
      return;
  }
  const auto taken = [](ncclResult_t result) { return result == ncclSuccess || result == ncclInProgress; };
  if (ncclGroupStart() != ncclSuccess) return;  // before 2.27 each by itself shares one job with the next
  bool all_taken = true;
  for (const ncclComm_t communicator : communicators_) all_taken = taken(ncclCommFinalize(communicator)) && all_taken;
  if (!taken(ncclGroupEnd()) || !all_taken) return;
  const Pause pause(deadline_);
  for (std::size_t place = 0; place < size(); ++place)
    if (!quiet(place, pause)) return;
  for (ncclComm_t& communicator : communicators_) (void)ncclCommDestroy(std::exchange(communicator, nullptr));
}

void NcclGroup::abort(std::size_t place) noexcept {
  if (communicators_[place] != nullptr) (void)ncclCommAbort(std::exchange(communicators_[place], nullptr));
}

void NcclGroup::abort() noexcept {
  for (std::size_t place = 0; place < size(); ++place) abort(place);
  (void)cudaGetLastError();  // what NCCL left behind would be blamed on the next launch
}

// --- after a failure

// One that is still connecting has been aborted by its constructor: NCCL revokes connected ones only. Other processes
// cannot know which devices go on: a part of a group of several ends as a whole.
void NcclGroup::stop() noexcept {
  if (std::exchange(stopped_, true)) return;
  if (!version_.can_revoke() || !version_.can_shrink() || size() < world_) return abort();
  for (std::size_t place = 0; place < size(); ++place)
    if (communicators_[place] != nullptr) {
      const ncclResult_t result = revoke(communicators_[place]);
      if (result != ncclSuccess && result != ncclInProgress) abort(place);
    }
  const Pause pause(deadline_);
  for (std::size_t place = 0; place < size(); ++place)
    if (!quiet(place, pause)) abort(place);
  (void)cudaGetLastError();
}

// When what has been revoked or finalized has ended, and well.
bool NcclGroup::quiet(std::size_t place, const Pause& pause) const noexcept {
  while (communicators_[place] != nullptr) {
    ncclResult_t state = ncclSuccess;
    if (ncclCommGetAsyncError(communicators_[place], &state) != ncclSuccess) return false;
    if (state != ncclInProgress) return state == ncclSuccess;
    if (pause.over()) return false;
    pause.rest();
  }
  return false;
}

bool NcclGroup::can_shrink_to(const std::vector<Device>& devices) const {
  if (!version_.can_shrink() || size() < world_ || devices.empty() || devices.size() >= size()) return false;
  return std::ranges::all_of(devices, [&](Device device) {
    const auto place = static_cast<std::size_t>(rank_of(device));
    return place < size() && communicators_[place] != nullptr;
  });
}

std::unique_ptr<NcclGroup> NcclGroup::shrink(const std::vector<Device>& devices) {
  const bool after_failure = std::exchange(stopped_, false) || broken_;
  std::unique_ptr<NcclGroup> smaller(new NcclGroup(devices, deadline_, version_));
  std::vector<int> excluded;
  for (std::size_t place = 0; place < size(); ++place)
    if (std::ranges::find(devices, devices_[place]) == devices.end()) {
      excluded.push_back(static_cast<int>(place));
      abort(place);  // a device that is lost answers nothing any more
    }
  try {
    connect([&] {
      for (std::size_t i = 0; i < devices.size(); ++i)
        shrink_one(devices[i], communicators_[static_cast<std::size_t>(rank_of(devices[i]))], excluded,
                   smaller->communicators_[i], after_failure);
    });
    for (const ncclComm_t communicator : smaller->communicators_)
      if (communicator == nullptr) raise<SyncError>("[nccl] ncclCommShrink has made no communicator");
    smaller->wait_until_taken("nccl");
  } catch (...) {
    abort();  // before the smaller group's, which they may still be making
    throw;
  }
  abort();
  return smaller;
}

}  // namespace tutti
