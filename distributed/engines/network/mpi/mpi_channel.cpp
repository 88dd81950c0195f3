// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/network/mpi/mpi_channel.h>

#include <tutti/backend/raise.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

namespace tutti {

namespace {

constexpr std::chrono::milliseconds kBetweenLooks{50};
constexpr int kTriesOfCancel = 1000;

}  // namespace

MpiChannel::MpiChannel(MpiRuntime& runtime, std::size_t processes, Clock::time_point deadline,
                       const std::function<void()>& look_around)
    : group_(runtime), runtime_(runtime), communicator_(std::make_shared<MpiHandle>()) {
  runtime_.keep(communicator_);
  MpiRequest request;
  {
    const std::lock_guard lock(runtime_.calls_mutex());
    MpiCalls& calls = runtime_.calls();
    const int size = calls.world_size();
    if (size != static_cast<int>(processes))
      raise<SyncError>("[mpi] mpirun started {} processes, and the job has {}", size, processes);
    rank_ = calls.world_rank();
    check(calls.begin_communicator(*communicator_, request));
  }
  wait({&request, 1}, deadline, look_around, "MPI_Comm_idup");
  const std::lock_guard lock(runtime_.calls_mutex());
  check(runtime_.calls().return_errors(*communicator_));
}

bool MpiChannel::check(int error) noexcept {
  if (error != 0 && error_ == 0) error_ = error;
  return error_ == 0;
}

bool MpiChannel::send(int rank, int tag, std::span<const std::byte> data, MpiRequest& request) noexcept {
  const std::lock_guard lock(runtime_.calls_mutex());
  return check(runtime_.calls().send(*communicator_, rank, tag, data, request));
}

bool MpiChannel::receive(int rank, int tag, std::span<std::byte> data, MpiRequest& request) noexcept {
  const std::lock_guard lock(runtime_.calls_mutex());
  return check(runtime_.calls().receive(*communicator_, rank, tag, data, request));
}

bool MpiChannel::test(MpiRequest& request) noexcept {
  if (!request.active) return true;
  const std::lock_guard lock(runtime_.calls_mutex());
  return check(runtime_.calls().test(request));
}

bool MpiChannel::test_some(std::span<MpiRequest* const> requests) noexcept {
  const std::lock_guard lock(runtime_.calls_mutex());
  return check(requests.empty() ? 0 : runtime_.calls().test_some(requests));
}

bool MpiChannel::cancel(MpiRequest& request) noexcept {
  if (!request.active) return true;
  const std::lock_guard lock(runtime_.calls_mutex());
  if (runtime_.calls().state() != MpiCalls::State::running) return false;
  runtime_.calls().cancel(request);
  for (int i = 0; request.active && i < kTriesOfCancel; ++i) runtime_.calls().test(request);
  return !request.active;
}

void MpiChannel::abort() noexcept {
  const std::lock_guard lock(runtime_.calls_mutex());
  runtime_.calls().abort();
}

void MpiChannel::wait(std::span<MpiRequest> requests, Clock::time_point deadline,
                      const std::function<void()>& look_around, const char* what) {
  auto looked = Clock::now();
  for (int turn = 0;; ++turn) {
    for (MpiRequest& each : requests) test(each);
    if (const std::string text = error(); !text.empty()) raise<SyncError>("[mpi] {}: {}", what, text);
    if (std::ranges::none_of(requests, &MpiRequest::active)) return;
    const auto now = Clock::now();
    if (now > deadline) raise<SyncError>("[mpi] other processes did not come to {} in time", what);
    if (now - looked > kBetweenLooks) {
      looked = now;
      if (look_around) look_around();
    }
    turn < 1000 ? std::this_thread::yield() : std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

std::string MpiChannel::error() const {
  const std::lock_guard lock(runtime_.calls_mutex());
  if (error_ == 0) return "";
  std::array<char, 256> text{};
  runtime_.calls().describe(error_, text);
  return text.data();
}

}  // namespace tutti
