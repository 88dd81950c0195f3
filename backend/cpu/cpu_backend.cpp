// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/cpu_backend.h>

#include <tutti/backend/cpu/runtime/heap_policy.h>
#include <tutti/backend/cpu/runtime/worker_process.h>
#include <tutti/backend/cpu_threads.h>
#include <tutti/backend/process/environment.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>

#ifdef __linux__
#include <sys/mman.h>
#endif

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace tutti {
namespace {

constexpr int kMaxThreads = 1024;

class HostMemory final : public RawMemory {
 public:
  explicit HostMemory(MemoryPool::Keeps keeps) : exact_(keeps == MemoryPool::Keeps::nothing) {}

  void* allocate(std::size_t bytes) override {
    constexpr std::size_t kHugePage = std::size_t{2} << 20U;
    const bool huge = bytes >= 2 * kHugePage;
    const std::size_t alignment = huge ? kHugePage : 64;
    const std::size_t whole = (bytes + alignment - 1) / alignment * alignment;
    void* data = nullptr;
    if (posix_memalign(&data, alignment, exact_ ? bytes : whole) != 0) return nullptr;
#ifdef __linux__
    if (huge && !exact_) madvise(data, bytes, MADV_HUGEPAGE);  // only a hint: fewer page faults
#endif
    return data;
  }
  void release(void* data, std::size_t) noexcept override { std::free(data); }

 private:
  bool exact_;
};

// Outlive every pool.
HostMemory& host_memory(MemoryPool::Keeps keeps) {
  static HostMemory& kept = *new HostMemory(MemoryPool::Keeps::freed_blocks);
  static HostMemory& exact = *new HostMemory(MemoryPool::Keeps::nothing);
  return keeps == MemoryPool::Keeps::nothing ? exact : kept;
}

CpuStream::Mode mode_from_environment() {
  return environment_switch("TUTTI_CPU_ASYNC") ? CpuStream::Mode::worker : CpuStream::Mode::run_inline;
}

int threads_from_environment() { return environment_number("TUTTI_CPU_THREADS", 1, 1, kMaxThreads); }

CpuBackend& cpu_backend_of(Device device) {
  if (device.kind != DeviceKind::cpu) raise<DeviceError>("[set_cpu_threads] {} is no CPU device", to_string(device));
  return static_cast<CpuBackend&>(registered_backend(device.kind));
}

}  // namespace

CpuBackend::Context::Context(Device device, MemoryPool::Keeps keeps, CpuStream::Mode mode, int threads)
    : pool(device, host_memory(keeps), keeps), threads(threads), compute(device, mode), communication(device, mode) {}

// The one that the registry makes, with the first use of a CPU device.
CpuBackend::CpuBackend() : CpuBackend(mode_from_environment(), threads_from_environment()) { keep_freed_heap(); }

CpuBackend::CpuBackend(CpuStream::Mode mode, int threads) : mode_(mode), default_threads_(threads) {}

CpuBackend::~CpuBackend() {
  // Streams may hold arrays of other devices: all work ends before any pool goes.
  stop_workers();
  for (auto& slot : contexts_) delete slot.load();
}

void CpuBackend::stop_workers() noexcept {
  if (!worker_process().here()) return;
  for (auto& slot : contexts_)
    if (Context* context = slot.load(); context != nullptr) {
      context->compute.stop();
      context->communication.stop();
    }
  for (auto& slot : contexts_)
    if (Context* context = slot.load(); context != nullptr) context->threads.resize(1);
}

void CpuBackend::check(Device device) const {
  if (device.index >= kMaxDevices)
    raise<DeviceError>("[device] {}: CPU devices are numbered 0 to {}", to_string(device), kMaxDevices - 1);
}

CpuBackend::Context& CpuBackend::make_context(Device device) {
  check(device);
  const std::lock_guard lock(making_);
  auto& slot = contexts_[device.index];
  if (slot.load() == nullptr)
    slot.store(new Context(device, pools_keep_, mode_, default_threads_), std::memory_order_release);
  return *slot.load();
}

void CpuBackend::copy_from_host(const void* from, const Array& to) {
  if (to.size() == 0) return;
  constexpr std::size_t kCopied = std::size_t{1} << 20U;
  CpuStream& stream = this->stream(to.device());
  if (stream.runs_inline() || to.bytes() > kCopied) {
    stream.launch(
        "copy_from_host", [from](const Array& target) { std::memcpy(target.raw_data(), from, target.bytes()); }, to);
    stream.record().synchronize();
    return;
  }
  const auto* bytes = static_cast<const std::byte*>(from);
  stream.launch(
      "copy_from_host",
      [copied = std::vector<std::byte>(bytes, bytes + to.bytes())](const Array& target) {
        std::memcpy(target.raw_data(), copied.data(), copied.size());
      },
      to);
}

void CpuBackend::copy_to_host(const Array& from, void* to) {
  stream(from.device()).synchronize();
  if (from.size() > 0) std::memcpy(to, from.raw_data(), from.bytes());
}

void set_cpu_threads(Device device, int threads) {
  if (threads < 1 || threads > kMaxThreads)
    raise<DeviceError>("[set_cpu_threads] {} threads for {}: it must be 1 to {}", threads, to_string(device),
                       kMaxThreads);
  cpu_backend_of(device).threads(device).resize(threads);
}

int cpu_threads(Device device) { return cpu_backend_of(device).threads(device).threads(); }

}  // namespace tutti
