// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/backend/cuda/on_host/grid.h>

#include <tutti/tests/backend/cuda/on_host/fiber.h>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti::on_host {
namespace {

struct Thread {
  enum class State : std::uint8_t { ready, at_barrier, in_warp, done };
  State state = State::ready;
  WarpCall call{};  // `where` is that of a barrier too
  std::uint64_t answer = 0;
};

std::string text_of(const std::source_location& where) {
  const std::string_view path = where.file_name();
  return fmt::format("{}:{}", path.substr(path.rfind('/') + 1), where.line());
}

/// Fibers are kept: a test launches thousands of grids.
class Grid {
 public:
  void run(dim3 blocks, dim3 threads, const Kernel& kernel);
  void wait_for_block(const std::source_location& where);
  std::uint64_t call_warp(const WarpCall&);
  bool is_ordered_before_now(const Moment& earlier) const noexcept;
  [[noreturn]] void end(const std::string& message);

 private:
  void reset_block(unsigned index, dim3 threads);
  void run_block();
  void run_thread(unsigned number);
  bool all_call(unsigned first, const WarpCall&) const;
  void release_warp(unsigned first, const WarpCall&);
  std::vector<unsigned> order(unsigned count);
  [[noreturn]] void report_waiting();
  std::string told(const std::string& message) const;
  Thread& own() { return threads_[moment_.thread]; }
  void pause(Thread::State state);

  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Thread> threads_;
  struct Warp {
    std::uint32_t phase = 0;
    unsigned waiting = 0;  // lanes
  };
  std::vector<Warp> warps_;
  const Kernel* kernel_ = nullptr;
  std::uint32_t first_block_ = 0;  // of this launch, as moments count
  std::string fault_;
  Moment moment_{};
  unsigned at_barrier_ = 0;
  std::mt19937 random_;
};

void Grid::run(dim3 blocks, dim3 threads, const Kernel& kernel) {
  const unsigned count = threads.x * threads.y * threads.z;
  if (blocks.x == 0 || blocks.y != 1 || blocks.z != 1 || count == 0 || count > 1024)
    throw Fault(fmt::format("no such grid: {} x {} x {} blocks of {} threads", blocks.x, blocks.y, blocks.z, count));
  while (fibers_.size() < count)
    fibers_.push_back(std::make_unique<Fiber>([this] {
      try {
        kernel_->run(kernel_->arguments);
      } catch (const Fault& fault) {
        fault_ = fault.what();
      }
      own().state = Thread::State::done;
    }));
  kernel_ = &kernel;
  random_.seed(schedule.seed);
  first_block_ = moment_.block + 1;
  registers.grid = dim3(std::min(blocks.x, schedule.most_blocks));
  registers.block = threads;
  for (const unsigned block : order(registers.grid.x)) {
    reset_block(block, threads);
    run_block();
  }
}

void Grid::reset_block(unsigned index, dim3 threads) {
  const unsigned count = threads.x * threads.y * threads.z;
  threads_.assign(count, {});
  warps_.assign((count + kWarp - 1) / kWarp, {});
  at_barrier_ = 0;
  ++moment_.block;
  ++moment_.phase;
  registers.block_index = dim3(index, 0, 0);
}

void Grid::run_block() {
  const auto count = static_cast<unsigned>(threads_.size());
  const std::vector<unsigned> turns = order(count);
  const auto is_done = [](const Thread& thread) { return thread.state == Thread::State::done; };
  while (!std::all_of(threads_.begin(), threads_.end(), is_done)) {
    bool progress = false;
    for (const unsigned number : turns) {
      if (threads_[number].state != Thread::State::ready) continue;
      progress = true;
      run_thread(number);
    }
    if (!progress) report_waiting();
  }
}

void Grid::run_thread(unsigned number) {
  const dim3& shape = registers.block;
  registers.thread_index = dim3(number % shape.x, number / shape.x % shape.y, number / shape.x / shape.y);
  moment_.thread = static_cast<std::uint16_t>(number);
  moment_.warp_phase = warps_[number / kWarp].phase;
  running = {&moment_, fibers_[number]->stack(), fibers_[number]->stack() + Fiber::kStack};
  fibers_[number]->resume();
  running = {};
  if (fault_.empty()) return;
  // The others stay where they are: they are begun anew, on new stacks.
  fibers_.clear();
  throw Fault(std::exchange(fault_, {}));
}

std::vector<unsigned> Grid::order(unsigned count) {
  std::vector<unsigned> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0U);
  if (schedule.order == Schedule::Order::backward) std::reverse(numbers.begin(), numbers.end());
  if (schedule.order == Schedule::Order::shuffled) std::shuffle(numbers.begin(), numbers.end(), random_);
  return numbers;
}

void Grid::report_waiting() {
  std::map<std::string, unsigned> places;
  for (const Thread& thread : threads_) {
    switch (thread.state) {
      case Thread::State::ready: break;
      case Thread::State::done: ++places["have ended"]; break;
      case Thread::State::at_barrier: ++places["wait for the block at " + text_of(thread.call.where)]; break;
      case Thread::State::in_warp:
        ++places[fmt::format("wait for lanes {:#x} at {}", thread.call.mask, text_of(thread.call.where))];
    }
  }
  std::string message = fmt::format("block {} cannot go on:", registers.block_index.x);
  for (const auto& [place, count] : places) message += fmt::format(" {} threads {};", count, place);
  message.pop_back();
  fibers_.clear();
  throw Fault(message);
}

std::string Grid::told(const std::string& message) const {
  return fmt::format("thread {} of block {} {}", moment_.thread, registers.block_index.x, message);
}

void Grid::end(const std::string& message) {
  fault_ = told(message);
  fibers_[moment_.thread]->abandon();
}

void Grid::pause(Thread::State state) {
  const unsigned number = moment_.thread;
  own().state = state;
  fibers_[number]->pause();
}

void Grid::wait_for_block(const std::source_location& where) {
  own().call.where = where;
  if (++at_barrier_ < threads_.size()) return pause(Thread::State::at_barrier);
  for (const Thread& thread : threads_)
    if (thread.call.where.line() != where.line() || thread.call.where.column() != where.column())
      throw Fault(
          told(fmt::format("waits for the block at {}, others at {}", text_of(where), text_of(thread.call.where))));
  for (Thread& thread : threads_) thread.state = Thread::State::ready;
  at_barrier_ = 0;
  ++moment_.phase;
}

bool Grid::is_ordered_before_now(const Moment& earlier) const noexcept {
  if (earlier.block < first_block_) return true;
  if (earlier.block != moment_.block) return false;
  return earlier.thread == moment_.thread || earlier.phase != moment_.phase ||
         (earlier.thread / kWarp == moment_.thread / kWarp && earlier.warp_phase != moment_.warp_phase);
}

std::uint64_t Grid::call_warp(const WarpCall& call) {
  const unsigned lane = moment_.thread % kWarp;
  const unsigned first = moment_.thread - lane;
  const auto lanes = static_cast<unsigned>(std::min<std::size_t>(kWarp, threads_.size() - first));
  if ((call.mask >> lane & 1U) == 0 || (std::uint64_t{call.mask} >> lanes) != 0)
    throw Fault(told(
        fmt::format("is lane {} of {} and calls for lanes {:#x} at {}", lane, lanes, call.mask, text_of(call.where))));
  if (call.source >= kWarp || (call.mask >> call.source & 1U) == 0)
    throw Fault(told(fmt::format("reads lane {} at {}, which takes no part", call.source, text_of(call.where))));
  own().call = call;
  Warp& warp = warps_[first / kWarp];
  if (++warp.waiting < static_cast<unsigned>(std::popcount(call.mask)) || !all_call(first, call)) {
    pause(Thread::State::in_warp);
  } else {
    warp.waiting -= static_cast<unsigned>(std::popcount(call.mask));
    release_warp(first, call);
  }
  return own().answer;
}

/// Whether the lanes that take part, but for the one that runs, wait at the same call.
bool Grid::all_call(unsigned first, const WarpCall& call) const {
  for (unsigned number = first; number < first + kWarp; ++number) {
    if ((call.mask >> (number - first) & 1U) == 0 || number == moment_.thread) continue;
    const Thread& thread = threads_[number];
    if (thread.state != Thread::State::in_warp || thread.call.kind != call.kind || thread.call.mask != call.mask ||
        thread.call.where.line() != call.where.line())
      return false;
  }
  return true;
}

/// All have called: each gets its answer.
void Grid::release_warp(unsigned first, const WarpCall& call) {
  std::uint64_t ballot = 0;
  for (unsigned lane = 0; lane < kWarp; ++lane)
    if ((call.mask >> lane & 1U) != 0) ballot |= (threads_[first + lane].call.value & 1U) << lane;
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    if ((call.mask >> lane & 1U) == 0) continue;
    Thread& thread = threads_[first + lane];
    thread.answer = call.kind == WarpCall::Kind::shuffle ? threads_[first + thread.call.source].call.value : ballot;
    thread.state = Thread::State::ready;
  }
  moment_.warp_phase = ++warps_[first / kWarp].phase;
}

Grid grid;

}  // namespace

void run_grid(dim3 blocks, dim3 threads, const Kernel& kernel) { grid.run(blocks, threads, kernel); }
void wait_for_block(const std::source_location& where) { grid.wait_for_block(where); }
std::uint64_t call_warp(const WarpCall& call) { return grid.call_warp(call); }
bool is_ordered_before_now(const Moment& earlier) noexcept { return grid.is_ordered_before_now(earlier); }
void end_thread(const std::string& message) { grid.end(message); }

}  // namespace tutti::on_host
