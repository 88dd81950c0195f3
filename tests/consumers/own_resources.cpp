// SPDX-License-Identifier: Apache-2.0
// A program of somebody else with a memory resource and a thread pool of its own: what it trains lies in the one, loops
// run on the other, and the results are those of a training on the library's own.
#include <tutti/backend/cpu_executor.h>
#include <tutti/backend/memory_resource.h>
#include <tutti/backend/registry.h>
#include <tutti/tutti.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <functional>
#include <latch>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

using namespace tutti;

namespace {

class Arena final : public std::pmr::memory_resource {
 public:
  std::atomic<std::size_t> held{0};

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    held += bytes;
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void* data, std::size_t bytes, std::size_t alignment) override {
    held -= bytes;
    std::pmr::new_delete_resource()->deallocate(data, bytes, alignment);
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
};

/// Two threads that run tasks. Whoever has a loop run takes its tasks, too.
class Pool {
 public:
  void run_all(int count, const std::function<void(int)>& task) {
    const auto loop = std::make_shared<Loop>(count, task);
    {
      const std::lock_guard lock(mutex_);
      for (int i = 1; i < count; ++i) loops_.push_back(loop);
    }
    some_.notify_all();
    loop->help();
    loop->left.wait();
    loops_run += 1;
  }
  std::atomic<int> loops_run{0};

 private:
  struct Loop {
    Loop(int tasks, const std::function<void(int)>& function) : count(tasks), task(function), left(tasks) {}
    void help() {
      for (int i = next++; i < count; i = next++) {
        task(i);
        left.count_down();
      }
    }
    const int count;
    const std::function<void(int)> task;
    std::atomic<int> next{0};
    std::latch left;
  };

  void work(std::stop_token stop) {
    for (;;) {
      std::unique_lock lock(mutex_);
      if (!some_.wait(lock, stop, [this] { return !loops_.empty(); })) return;
      const auto loop = std::move(loops_.front());
      loops_.pop_front();
      lock.unlock();
      loop->help();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any some_;
  std::deque<std::shared_ptr<Loop>> loops_;
  std::jthread first_{[this](std::stop_token stop) { work(stop); }};
  std::jthread second_{[this](std::stop_token stop) { work(stop); }};
};

/// The weights of a layer after some steps on two devices, from `first` on.
std::vector<float> trained(int first) {
  GradientSync sync({cpu(first), cpu(first + 1)});
  Generator initial(1);
  auto replicas = sync.replicate(Linear(256, 256, initial));
  on_every_device(sync, [&](std::size_t number) {
    const Device device = sync.devices()[number];
    Sgd optimizer(replicas[number].parameters(), 0.1);
    Generator random(2, number);
    for (int i = 0; i < 20; ++i) {
      const Tensor x(random.normal({512, 256}, DType::f32, device));
      optimizer.zero_grad();
      auto step = sync.step(device, 512);
      step.backward(mean(square(relu(replicas[number](x)) - x)));
      optimizer.step();
    }
    sync.leave(device);
  });
  return replicas[0].parameters().front().array().to_vector<float>();
}

}  // namespace

int main() {
  const auto arena = std::make_shared<Arena>();
  Pool pool;
  for (const Device device : {cpu(0), cpu(1)}) {
    set_memory_resource(device, arena);
    set_cpu_executor(device, 3, [&](int parts, const std::function<void(int)>& part) { pool.run_all(parts, part); });
  }
  const std::vector<float> own = trained(0);
  const std::size_t held = arena->held;
  for (const Device device : {cpu(0), cpu(1)}) {
    set_cpu_executor(device, 1, nullptr);  // the pool ends before the process does
    synchronize(device);                   // work that is queued holds memory
    set_memory_resource(device, nullptr);
  }
  std::printf("%d loops on the program's threads, %zu bytes in its arena, then %zu\n", pool.loops_run.load(), held,
              arena->held.load());
  return own == trained(2) && pool.loops_run > 100 && held > 0 && arena->held == 0 ? 0 : 1;
}
