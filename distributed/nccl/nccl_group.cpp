// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/nccl/nccl_group.h>

#include <tutti/backend/error.h>

#include <algorithm>
#include <thread>
#include <utility>

namespace tutti {

using cuda_runtime::CurrentDevice;

namespace {

constexpr int kOldest = NCCL_VERSION(2, 18, 0);  // communicators that do not block in group calls

void require_version(Device device) {
  int version = 0;
  TUTTI_NCCL(device, "nccl", ncclGetVersion(&version));
  if (version < kOldest)
    raise<SyncError>("[nccl] version {}.{} is too old: communicators that never block need 2.18", version / 10000,
                     version / 100 % 100);
}

}  // namespace

void check_nccl(ncclResult_t result, const char* call, Device device, std::string_view operation) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  const std::string_view text = call;
  raise<SyncError>("[{}] {}: {} failed: {}", operation, to_string(device), text.substr(0, text.find('(')),
                   ncclGetErrorString(result));
}

ncclUniqueId make_nccl_id(Device device) {
  require_version(device);
  ncclUniqueId id;
  TUTTI_NCCL(device, "nccl", ncclGetUniqueId(&id));
  return id;
}

NcclGroup::NcclGroup(std::vector<Device> devices, std::chrono::milliseconds deadline)
    : NcclGroup(devices, {make_nccl_id(devices.front()), static_cast<int>(devices.size()), 0}, deadline) {}

NcclGroup::NcclGroup(std::vector<Device> devices, const NcclMembership& membership, std::chrono::milliseconds deadline)
    : devices_(std::move(devices)),
      deadline_(deadline),
      world_(static_cast<std::size_t>(membership.world)),
      first_rank_(static_cast<std::size_t>(membership.first_rank)),
      communicators_(devices_.size(), nullptr) {
  if (membership.first_rank < 0 || first_rank_ + size() > world_)
    raise<SyncError>("[nccl] ranks {} to {} do not fit in a group of {}", membership.first_rank,
                     membership.first_rank + static_cast<int>(size()) - 1, membership.world);
  require_version(devices_.front());
  try {
    submit("nccl", [&] {
      for (std::size_t rank = 0; rank < size(); ++rank) {
        const CurrentDevice current(devices_[rank], "nccl");
        ncclConfig_t configuration = NCCL_CONFIG_INITIALIZER;
        configuration.blocking = 0;
        TUTTI_NCCL(devices_[rank], "nccl",
                   ncclCommInitRankConfig(&communicators_[rank], membership.world, membership.id,
                                          membership.first_rank + static_cast<int>(rank), &configuration));
      }
    });
  } catch (...) {
    abort();
    throw;
  }
}

NcclGroup::~NcclGroup() { abort(); }

int NcclGroup::rank_of(Device device) const {
  return static_cast<int>(std::ranges::find(devices_, device) - devices_.begin());
}

void NcclGroup::begin(std::string_view operation) { TUTTI_NCCL(devices_.front(), operation, ncclGroupStart()); }

void NcclGroup::end(std::string_view operation) {
  TUTTI_NCCL(devices_.front(), operation, ncclGroupEnd());
  wait_until_taken(operation);
}

// A communicator that does not block answers at once and goes on connecting; what comes next has to wait for that.
void NcclGroup::wait_until_taken(std::string_view operation) const {
  const auto asleep_from = std::chrono::steady_clock::now() + std::chrono::microseconds(100);
  const auto until = std::chrono::steady_clock::now() + deadline_;
  for (std::size_t rank = 0; rank < size(); ++rank)
    while (true) {
      ncclResult_t state = ncclSuccess;
      TUTTI_NCCL(devices_[rank], operation, ncclCommGetAsyncError(communicators_[rank], &state));
      check_nccl(state, "asynchronous part", devices_[rank], operation);
      if (state == ncclSuccess) break;
      if (std::chrono::steady_clock::now() > until)
        raise<SyncError>("[{}] {}: NCCL has not taken it within {} ms", operation, to_string(devices_[rank]),
                         deadline_.count());
      if (std::chrono::steady_clock::now() > asleep_from) std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
}

void NcclGroup::check_running(std::string_view operation) const {
  for (std::size_t rank = 0; rank < size(); ++rank) {
    ncclResult_t state = ncclSuccess;
    TUTTI_NCCL(devices_[rank], operation, ncclCommGetAsyncError(communicators_[rank], &state));
    check_nccl(state, "asynchronous part", devices_[rank], operation);
  }
}

void NcclGroup::abort() noexcept {
  for (ncclComm_t& communicator : communicators_)
    if (communicator != nullptr) (void)ncclCommAbort(std::exchange(communicator, nullptr));
  (void)cudaGetLastError();  // what NCCL left behind would be blamed on the next launch
}

}  // namespace tutti
