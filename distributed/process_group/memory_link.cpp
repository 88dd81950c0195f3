// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/process_group/memory_link.h>

#include <tutti/backend/error.h>
#include <tutti/backend/process/start_thread.h>

#include <string>
#include <utility>

namespace tutti {

namespace {

using namespace std::chrono_literals;

constexpr auto kComeBy = 2ms;       // time for a device's thread to come by
constexpr auto kShortSleep = 10ms;  // longest sleep of such a thread, which a failure has to reach, too
constexpr auto kCloseLook = 50ms;   // between two looks at `closing_`

}  // namespace

// What an ended process has said before is there by then.
void MemoryLink::open(Hearing hearing) {
  hearing_ = std::move(hearing);
  thread_ = start_thread<SyncError>("sync, words in shared memory", [this] { run(); });
  other_->open({.said =
                    [this](Line line, std::vector<Bytes> by_rank) {
                      hearing_.said(line, std::move(by_rank));
                      if (line != Line::checks) return;
                      checks_heard_.fetch_add(1, std::memory_order_acq_rel);
                      poll();
                    },
                .ended =
                    [this](const End& end) {
                      poll();
                      hearing_.ended(end);
                    }});
}

void MemoryLink::say(Line line, Bytes bytes) {
  if (line == Line::checks) checks_said_.fetch_add(1, std::memory_order_acq_rel);
  if (line != Line::round) return other_->say(line, std::move(bytes));
  own_ = std::move(bytes);
  const std::uint64_t number = ++said_;
  awaited_.store(number, std::memory_order_release);
  words_->say(number, own_);
  const std::lock_guard lock(mutex_);
  news_.came();
}

std::vector<int> MemoryLink::missing(Line line) const {
  const std::uint64_t number = awaited_.load(std::memory_order_acquire);
  if (line != Line::round || number == 0) return other_->missing(line);
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < words_->size(); ++rank)
    if (!words_->has_said(rank, number)) ranks.push_back(static_cast<int>(rank));
  return ranks.empty() && waits_for_checks() ? other_->missing(Line::checks) : ranks;
}

// Those that all others have said may be heard when this process is silent.
bool MemoryLink::waits_for_checks() const noexcept {
  return checks_heard_.load(std::memory_order_acquire) < checks_said_.load(std::memory_order_acquire);
}

void MemoryLink::poll() noexcept {
  if (!visited_.load(std::memory_order_relaxed)) visited_.store(true, std::memory_order_relaxed);
  look();
}

void MemoryLink::look() noexcept {
  const std::uint64_t number = awaited_.load(std::memory_order_acquire);
  if (number != 0 && !waits_for_checks() && words_->all_have_said(number)) hear(number);
}

bool MemoryLink::sleep_to_hear() noexcept {
  const std::uint64_t number = awaited_.load(std::memory_order_acquire);
  if (number == 0 || waits_for_checks()) return false;  // the other link's thread hears of those
  visited_.store(true, std::memory_order_relaxed);
  words_->sleep(number, kShortSleep);
  poll();
  return true;
}

// Where some process's words are elsewhere, all say theirs over the other link.
void MemoryLink::hear(std::uint64_t number) noexcept {
  if (!awaited_.compare_exchange_strong(number, 0, std::memory_order_acq_rel)) return;
  try {
    std::vector<Bytes> by_rank;
    for (std::size_t rank = 0; rank < words_->size(); ++rank) {
      auto words = words_->words(rank, number);
      if (!words) return other_->say(Line::round, std::exchange(own_, {}));
      by_rank.push_back(*std::move(words));
    }
    hearing_.said(Line::round, std::move(by_rank));
  } catch (const std::exception& error) {
    fail(error.what());
  }
}

// Without memory for the text the others end, and tell this process.
void MemoryLink::fail(const char* why) noexcept {
  try {
    hearing_.ended({rank(), std::string("[sync] words in shared memory have failed: ") + why, 0, false});
  } catch (...) {
    other_->end({rank(), {}, 0, false});
  }
}

// Devices' threads come by within steps, and this one would take their core; it hears what they do not, as when all
// have left.
void MemoryLink::run() {
  bool comes_first = false;  // nobody came by last time
  std::unique_lock lock(mutex_);
  while (!closing_) {
    const std::uint64_t number = awaited_.load(std::memory_order_acquire);
    if (number == 0) {
      const auto has_news = [this] { return closing_ || awaited_.load(std::memory_order_acquire) != 0; };
      if (comes_first)
        news_.sleep(lock, has_news);
      else
        news_.wait_for_work(lock, kComeBy, has_news);
      continue;
    }
    if (!comes_first) news_.wait_until(lock, std::chrono::steady_clock::now() + kComeBy);
    comes_first = false;
    while (!closing_ && awaited_.load(std::memory_order_acquire) == number) {
      if (waits_for_checks() || visited_.exchange(false, std::memory_order_relaxed)) {
        news_.wait_until(lock, std::chrono::steady_clock::now() + kComeBy);
        continue;
      }
      lock.unlock();
      words_->sleep(number, kCloseLook);
      const bool nobody_came = !visited_.load(std::memory_order_relaxed);
      comes_first = nobody_came && awaited_.load(std::memory_order_acquire) == number;
      if (nobody_came) look();
      lock.lock();
    }
  }
}

// Devices' threads, which hear within calls of the server, are gone by then.
void MemoryLink::close() noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(closing_, true)) return;
    news_.wake();
  }
  words_->wake();
  if (thread_.joinable()) thread_.join();
  other_->close();
}

}  // namespace tutti
