// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/server/other_processes.h>

#include <tutti/backend/process/start_thread.h>
#include <tutti/backend/raise.h>
#include <tutti/distributed/threads/work_signal.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <set>
#include <string_view>
#include <thread>
#include <utility>

namespace tutti {

namespace {

constexpr std::uint64_t kCommitMark = 0x74696D6D6F432E54U;  // no words begin like it

/// Counts the tasks that are not finished.
struct Countdown {
  explicit Countdown(std::size_t tasks, std::function<void(std::exception_ptr)> call)
      : left(tasks), done(std::move(call)) {}

  bool is_last(const std::exception_ptr& error) {
    if (error) {
      const std::lock_guard lock(mutex);
      if (!first) first = error;
    }
    return left.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }

  std::atomic<std::size_t> left;
  std::function<void(std::exception_ptr)> done;
  std::mutex mutex;  // guards `first`: several tasks may fail at once
  std::exception_ptr first;
};

}  // namespace

/// Lets calls in until it is closed, and is closed when the last has left. Calls may nest.
class OtherProcesses::Gate {
 public:
  template <class Call> void enter(Call call) {
    {
      const std::lock_guard lock(mutex_);
      if (closed_) return;
      ++inside_;
    }
    call();
    const std::lock_guard lock(mutex_);
    --inside_;
    left_.notify_all();
  }
  void close() {
    std::unique_lock lock(mutex_);
    closed_ = true;
    left_.wait(lock, [this] { return inside_ == 0; });  // a call inside waits for nothing
  }

 private:
  std::mutex mutex_;  // guards what follows: tasks finish on any thread
  std::condition_variable left_;
  int inside_ = 0;
  bool closed_ = false;
};

/// Waits for one task after the other, each some time after it came: until then a device's thread may do it. Ends with
/// the last: what is left then ends when the engine is aborted, or others have come.
class OtherProcesses::Runner {
 public:
  static constexpr std::chrono::milliseconds kGrace{2};

  ~Runner() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      news_.wake();
    }
    thread_.join();
  }
  void add(std::shared_ptr<CollectiveTask> task, bool at_once) {
    const std::lock_guard lock(mutex_);
    tasks_.push_back({std::move(task), Clock::now() + (at_once ? kGrace.zero() : kGrace)});
    news_.came();
    if (at_once && tasks_.size() == 1) news_.wake();  // else it wakes when the first is due
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Due {
    std::shared_ptr<CollectiveTask> task;
    Clock::time_point at;
  };
  void run() {
    std::unique_lock lock(mutex_);
    while (!stopping_ || !tasks_.empty()) {
      if (tasks_.empty()) {
        news_.wait_for_work(lock, kGrace, [this] { return stopping_ || !tasks_.empty(); });
        continue;
      }
      const auto task = tasks_.front().task;
      const bool is_due = stopping_ || Clock::now() >= tasks_.front().at;
      if (!is_due && !task->finished()) {
        news_.wait_until(lock, tasks_.front().at);
        continue;
      }
      tasks_.pop_front();
      lock.unlock();
      if (!task->finished()) task->wait();
      lock.lock();
    }
  }

  std::mutex mutex_;  // guards what follows: tasks are added while the thread takes them
  WorkSignal news_;
  std::deque<Due> tasks_;
  bool stopping_ = false;
  std::thread thread_ = start_thread<SyncError>("sync, other processes", [this] { run(); });
};

void OtherProcesses::finish(std::shared_ptr<CollectiveTask> task, Sequence sequence, bool at_once) {
  auto& runner = runners_[static_cast<std::size_t>(sequence)];
  if (!runner) runner = std::make_unique<Runner>();
  runner->add(std::move(task), at_once);
}

void OtherProcesses::note_open(std::shared_ptr<CollectiveTask> task) {
  std::erase_if(open_, [](const auto& each) { return each->finished(); });
  open_.push_back(std::move(task));
}

void OtherProcesses::end_open(std::function<void()> abort) {
  using Clock = std::chrono::steady_clock;
  const auto are_finished = [tasks = open_] {
    return std::ranges::all_of(tasks, [](const auto& each) { return each->finished(); });
  };
  if (aborting_.joinable() || are_finished()) return;
  aborting_ = start_thread<SyncError>("sync, the end of what is open", [are_finished, abort = std::move(abort)] {
    for (const auto end = Clock::now() + std::chrono::milliseconds(100); Clock::now() < end;) {
      if (are_finished()) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    abort();
  });
}

OtherProcesses::OtherProcesses(std::unique_ptr<ProcessLink> link)
    : link_(std::move(link)), gate_(std::make_shared<Gate>()) {}

OtherProcesses::~OtherProcesses() { close(); }

void OtherProcesses::close() noexcept {
  for (auto& runner : runners_) runner.reset();  // before the link, which tells of processes that do not come any more
  link_->close();                                // nothing that is heard starts it any more
  if (aborting_.joinable()) aborting_.join();
  gate_->close();
}

void OtherProcesses::describe(std::size_t parameters, std::uint64_t description, std::uint64_t values) {
  std::vector<std::uint32_t> devices(static_cast<std::size_t>(world_of(link_->members())));
  for (const Member& member : link_->members()) ++devices[static_cast<std::size_t>(member.rank)];
  rounds_.emplace(RoundAgreement::Model{parameters, description, values}, link_->rank(), std::move(devices));
}

void OtherProcesses::ask(const Agree& agree) {
  asked_ = agree;
  awaited_ = Awaited::words;
  link_->say(ProcessLink::Line::round, rounds_->words(asked_));
}

void OtherProcesses::ask_commit(std::int64_t generation) {
  awaited_ = Awaited::commit;
  asked_.generation = generation;
  const Commit commit{generation, kCommitMark};
  Bytes bytes(sizeof(commit));
  std::memcpy(bytes.data(), &commit, sizeof(commit));
  link_->say(ProcessLink::Line::round, std::move(bytes));
}

void OtherProcesses::after(std::span<const std::shared_ptr<CollectiveTask>> tasks,
                           std::function<void(std::exception_ptr)> done) {
  if (tasks.empty()) return done(nullptr);
  const auto countdown = std::make_shared<Countdown>(tasks.size(), std::move(done));
  for (const auto& task : tasks)
    task->then([countdown, gate = gate_, watched = task.get()] {
      if (countdown->is_last(watched->error())) gate->enter([&] { countdown->done(countdown->first); });
    });
}

OtherProcesses::Answer OtherProcesses::hear(std::span<const Bytes> by_rank) {
  std::optional<Agreement> agreement;
  switch (std::exchange(awaited_, Awaited::nothing)) {
    case Awaited::nothing: raise<SyncError>("[sync] the other processes said something that nobody had asked for");
    case Awaited::words:
      rounds_->hear_words(asked_.generation, by_rank);
      if (!rounds_->model_difference().empty()) return ModelDiffers{rounds_->model_difference(), rounds_->all_left()};
      agreement = rounds_->agreed();
      break;
    case Awaited::sets: agreement = rounds_->hear_sets(by_rank); break;
    case Awaited::commit: hear_commit(by_rank); return Committed{};
  }
  if (agreement) return std::make_shared<const Agreement>(*std::move(agreement));
  awaited_ = Awaited::sets;
  link_->say(ProcessLink::Line::round, rounds_->sets(asked_));
  return std::monostate{};
}

void OtherProcesses::hear_commit(std::span<const Bytes> by_rank) const {
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    Commit commit;
    if (by_rank[rank].size() == sizeof(commit)) std::memcpy(&commit, by_rank[rank].data(), sizeof(commit));
    if (commit.mark != kCommitMark || commit.generation != asked_.generation)
      raise<SyncError>("[sync] rank {} did not come to the end of generation {}", rank, asked_.generation);
  }
}

std::string OtherProcesses::with_places(std::string text) const {
  constexpr std::string_view kWord = "rank ";
  // What a device says of its failure may speak of the ranks of tensors.
  std::size_t cause = text.find(" failed in generation ");
  if (cause != std::string::npos && text.substr(0, cause).ends_with("a reduction")) cause = std::string::npos;
  std::set<int> ranks;
  for (std::size_t at = 0; (at = text.find(kWord, at)) < cause;) {
    at += kWord.size();
    for (const char* next = text.data() + at; next != nullptr;) {  // "rank 1, 2"
      int rank = -1;
      const char* const last = text.data() + text.size();
      const auto [end, error] = std::from_chars(next, last, rank);
      const bool is_rank = error == std::errc() && rank >= 0 && rank < world_of(link_->members());
      if (is_rank && rank != link_->rank()) ranks.insert(rank);
      next = is_rank && std::string_view(end, last).starts_with(", ") ? end + 2 : nullptr;
    }
  }
  for (const int rank : ranks) {
    const std::string place = link_->place_of(rank);
    const bool is_told = text.find(fmt::format("rank {} on ", rank)) != std::string::npos ||
                         text.find(fmt::format("rank {} is on ", rank)) != std::string::npos;
    if (!place.empty() && !is_told) text += fmt::format("; rank {} is on {}", rank, place);
  }
  return text;
}

void OtherProcesses::compare_no_more() {
  if (std::exchange(compares_, false)) link_->be_silent(ProcessLink::Line::checks);
}

void OtherProcesses::note(Ended ended) { others_ended_.push_back(std::move(ended)); }

const OtherProcesses::Ended* OtherProcesses::ended_before(std::int64_t generation) const {
  const Ended* found = nullptr;
  for (const Ended& each : others_ended_)
    if (each.completed < generation && (found == nullptr || (found->closed && !each.closed))) found = &each;
  return found;
}

void OtherProcesses::end(std::string text, std::int64_t completed, bool closed) noexcept {
  if (std::exchange(ended_, true)) return;
  link_->end({link_->rank(), std::move(text), completed, closed});
}

}  // namespace tutti
