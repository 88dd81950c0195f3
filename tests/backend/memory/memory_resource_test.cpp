// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/memory_resource.h>

#include <tutti/backend/capture/capture.h>
#include <tutti/backend/cpu/cpu_backend.h>
#include <tutti/backend/error.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/registry.h>

#include <doctest/doctest.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

TEST_SUITE_BEGIN("cpu");

namespace tutti {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20U;

/// Counts what it hands out, up to a bound; checks that it comes back as it was asked for.
class CountedResource final : public std::pmr::memory_resource {
 public:
  explicit CountedResource(std::size_t most = std::size_t{1} << 40U) : most_(most) {}
  ~CountedResource() override { CHECK(blocks_.empty()); }

  std::size_t held() const {
    const std::lock_guard lock(mutex_);
    return held_;
  }
  std::size_t taken() const {
    const std::lock_guard lock(mutex_);
    return taken_;
  }
  bool has(const void* data) const {
    const std::lock_guard lock(mutex_);
    return blocks_.contains(data);
  }

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    const std::lock_guard lock(mutex_);
    CHECK(alignment == 64);
    if (held_ + bytes > most_) throw std::bad_alloc();
    void* const data = std::pmr::new_delete_resource()->allocate(bytes, alignment);
    blocks_[data] = bytes;
    held_ += bytes;
    ++taken_;
    return data;
  }
  void do_deallocate(void* data, std::size_t bytes, std::size_t alignment) override {
    const std::lock_guard lock(mutex_);
    CHECK(blocks_.at(data) == bytes);
    CHECK(alignment == 64);
    blocks_.erase(data);
    held_ -= bytes;
    std::pmr::new_delete_resource()->deallocate(data, bytes, alignment);
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  const std::size_t most_;
  mutable std::mutex mutex_;  // guards the rest
  std::map<const void*, std::size_t> blocks_;
  std::size_t held_ = 0;
  std::size_t taken_ = 0;
};

/// The program's resource for a device, as long as it lives.
class Given {
 public:
  Given(Device device, std::shared_ptr<std::pmr::memory_resource> resource) : device_(device) {
    set_memory_resource(device, std::move(resource));
  }
  ~Given() {
    synchronize(device_);
    set_memory_resource(device_, nullptr);
  }
  Given(const Given&) = delete;
  Given& operator=(const Given&) = delete;

 private:
  Device device_;
};

TEST_CASE("resource: arrays, temporaries and captures of the device lie in it, and their blocks go back as they came") {
  const Device device = cpu(50);
  const auto resource = std::make_shared<CountedResource>();
  {
    const Given given(device, resource);
    const Array x = Array::full({1000, 30}, 2.0, DType::f32, device);
    CHECK(resource->has(x.storage()->data()));
    const Array y = apply(elementwise::Add{}, x, x);
    CHECK(resource->has(y.storage()->data()));
    const std::size_t before = resource->taken();
    const Array images = Array::full({4, 3, 9, 9}, 1.0, DType::f32, device);
    const Array weight = Array::full({5, 3, 3, 3}, 1.0, DType::f32, device);
    CHECK(conv2d({}, images, weight).to_vector<float>().at(0) == 27.0F);
    CHECK(resource->taken() >= before + 4);  // images, weight, result, columns of the images
    Capture capture(device);
    {
      const CaptureScope scope(capture);
      const Array z = apply(elementwise::Add{}, y, x);
      CHECK(resource->has(z.storage()->data()));
    }
    CHECK(resource->held() >= memory_pool(device).statistics().in_use);
    CHECK(y.to_vector<float>() == std::vector<float>(30000, 4.0F));
  }
  CHECK(resource->held() == 0);
  CHECK(resource.use_count() == 1);
  const std::size_t taken = resource->taken();
  CHECK(Array::full({10}, 1.0, DType::f32, device).to_vector<float>().at(0) == 1.0F);
  CHECK(resource->taken() == taken);
  CHECK(resource->held() == 0);
}

TEST_CASE("resource: it is kept until another takes its place, which it does not while the device holds memory") {
  const Device device = cpu(51);
  std::weak_ptr<CountedResource> first;
  {
    auto made = std::make_shared<CountedResource>();
    first = made;
    set_memory_resource(device, std::move(made));
  }
  CHECK_FALSE(first.expired());
  {
    const Array x = Array::full({16}, 1.0, DType::f32, device);
    synchronize(device);
    CHECK_THROWS_WITH_AS(
        set_memory_resource(device, nullptr),
        "[set_memory_resource] cpu:51 holds 64 bytes, of arrays or of work that is queued: set its resource before",
        Error);
    CHECK(first.lock()->has(x.storage()->data()));
  }
  const Given second(device, std::make_shared<CountedResource>());  // what the pool has kept goes back first
  CHECK(first.expired());
}

TEST_CASE("resource: without memory the pool gives back what it keeps, then names the device") {
  const Device device = cpu(52);
  const auto resource = std::make_shared<CountedResource>(4 * kMiB);
  const Given given(device, resource);
  { const Array small = Array::empty({2 * static_cast<std::int64_t>(kMiB)}, DType::u8, device); }
  const Array large = Array::empty({4 * static_cast<std::int64_t>(kMiB)}, DType::u8, device);
  CHECK(resource->held() == 4 * kMiB);
  CHECK_THROWS_WITH_AS(Array::empty({64}, DType::u8, device),
                       doctest::Contains("[memory] cpu:52: no room for 64 B (64 bytes)"), OutOfMemoryError);
  CHECK(memory_pool(device).statistics().in_use == 4 * kMiB);
}

/// Fails as it is told.
class BrokenResource final : public std::pmr::memory_resource {
 public:
  enum class Gives : std::uint8_t { error, crooked_memory };
  explicit BrokenResource(Gives gives) : gives_(gives) {}

 private:
  void* do_allocate(std::size_t bytes, std::size_t) override {
    if (gives_ == Gives::error) throw std::runtime_error("arena is closed");
    return static_cast<std::byte*>(std::pmr::new_delete_resource()->allocate(bytes + 8, 64)) + 8;
  }
  void do_deallocate(void* data, std::size_t bytes, std::size_t) override {
    std::pmr::new_delete_resource()->deallocate(static_cast<std::byte*>(data) - 8, bytes + 8, 64);
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  Gives gives_;
};

TEST_CASE("resource: what else it throws comes out, and memory that does not fit is an error; nothing is held then") {
  const Device device = cpu(53);
  const auto make = [&] { return Array::empty({100}, DType::f32, device); };
  {
    const Given given(device, std::make_shared<BrokenResource>(BrokenResource::Gives::error));
    CHECK_THROWS_WITH_AS(make(), "arena is closed", std::runtime_error);
  }
  const Given given(device, std::make_shared<BrokenResource>(BrokenResource::Gives::crooked_memory));
  CHECK_THROWS_WITH_AS(
      make(),
      doctest::Contains("[set_memory_resource] cpu:53: the resource gave memory that is not aligned to 64 bytes"),
      Error);
  CHECK(memory_pool(device).statistics().reserved == 0);
}

TEST_CASE("resource: other kinds of device have none") {
  CHECK_THROWS_WITH_AS(set_memory_resource(cuda(1), std::make_shared<CountedResource>()),
                       "[set_memory_resource] cuda:1 is no CPU device", DeviceError);
}

TEST_CASE("resource: what queued work uses is not given back before it has run") {
  const Device device = cpu(54);
  CpuBackend backend(CpuStream::Mode::worker);
  const auto resource = std::make_shared<CountedResource>();
  backend.memory(device).take_from(resource);
  const auto gate = std::make_shared<CpuEvent>();
  backend.compute_stream(device).wait(Event(gate));
  auto storage = std::make_shared<Storage>(device, backend.pool(device), 256);
  backend.stream(device).launch(
      "use", [](const std::shared_ptr<Storage>& held) { held->data()[255] = std::byte{1}; }, storage);
  storage.reset();
  backend.pool(device).trim();
  CHECK(resource->held() == 256);
  CHECK_THROWS_AS(backend.memory(device).take_from(nullptr), Error);
  gate->complete();
  backend.compute_stream(device).synchronize();
  backend.pool(device).trim();
  CHECK(resource->held() == 0);
  CHECK_NOTHROW(backend.memory(device).take_from(nullptr));
}

TEST_CASE("resource: threads may make and free arrays while another tries to take its place") {
  for (const auto keeps : {MemoryPool::Keeps::freed_blocks, MemoryPool::Keeps::nothing}) {
    HostMemory memory(cpu(55), keeps);
    MemoryPool pool(cpu(55), memory, keeps);
    std::atomic<int> left{3};
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < 3; ++t)
      threads.emplace_back([&, t] {
        for (std::size_t i = 1; i < 500; ++i) {
          auto* data = static_cast<unsigned char*>(pool.allocate(i));
          data[i - 1] = static_cast<unsigned char>(t);
          pool.release(data, i);
        }
        --left;
      });
    do {
      try {
        pool.trim();
        memory.take_from(std::make_shared<CountedResource>());
      } catch (const Error&) {  // it holds memory
      }
    } while (left > 0);
    for (auto& thread : threads) thread.join();
    pool.trim();
    CHECK(pool.statistics().reserved == 0);
    CHECK_NOTHROW(memory.take_from(nullptr));
  }
}

}  // namespace
}  // namespace tutti

TEST_SUITE_END();
