// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/network/mpi/mpi_watch.h>

#include <tutti/backend/log.h>
#include <tutti/backend/raise.h>
#include <tutti/distributed/engines/network/mpi/mpi_line.h>

#include <algorithm>
#include <exception>
#include <string>
#include <thread>
#include <utility>

namespace tutti {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::microseconds kBusy{100};           // time in which the core is not offered to others
constexpr std::chrono::microseconds kAwake{5'000};        // time without sleep of who waits for something
constexpr std::chrono::microseconds kAwakeForOthers{20};  // of the lines' thread, while others compute
constexpr std::chrono::microseconds kShortestSleep{50};
constexpr std::chrono::microseconds kLongestSleep{1'000};

}  // namespace

MpiWatch::MpiWatch(std::shared_ptr<MpiChannel> channel) : channel_(std::move(channel)) {}

void MpiWatch::wake() noexcept {
  if (!woken_.exchange(true, std::memory_order_seq_cst)) bell_.ring();
}

bool MpiWatch::wait(std::span<Watched> lines, std::chrono::milliseconds most) {
  const bool forever = most < most.zero();
  const auto since = Clock::now();
  std::chrono::microseconds sleep = kShortestSleep;
  for (;;) {
    const std::uint32_t rings = bell_.rings();
    const bool woken = take_wake();
    awaited_.clear();
    for (const Watched& each : lines)
      if (each.reads) static_cast<MpiLine*>(each.line)->add_awaited(awaited_);
    if (!channel_->test_some(awaited_)) raise<SyncError>("[mpi] {}", channel_->error());
    bool any = woken;
    for (Watched& each : lines) {
      auto& line = *static_cast<MpiLine*>(each.line);
      each.can_read = each.reads && line.can_read();
      each.can_write = each.writes && line.can_send();
      any |= each.can_read || each.can_write;
    }
    if (any) return woken;
    const auto now = Clock::now();
    if (!forever && now - since >= most) return false;
    if (now - since < (forever ? kAwakeForOthers : kAwake)) {
      if (now - since > kBusy) std::this_thread::yield();
      continue;
    }
    bell_.sleep(rings, sleep);
    sleep = std::min(2 * sleep, kLongestSleep);
  }
}

void MpiWatch::give_up(std::string_view reason) noexcept {
  try {
    log_message(LogLevel::error,
                "[network] a process does not take what was sent to it, and MPI ends the job: " + std::string(reason));
  } catch (const std::exception&) {  // no memory for the text
  }
  channel_->abort();
}

}  // namespace tutti
