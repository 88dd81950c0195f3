// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/cpu_backend.h>

#include <tutti/backend/cpu/runtime/heap_policy.h>
#include <tutti/backend/cpu/runtime/loop_executor.h>
#include <tutti/backend/cpu/runtime/worker_process.h>
#include <tutti/backend/cpu_executor.h>
#include <tutti/backend/cpu_threads.h>
#include <tutti/backend/memory_resource.h>
#include <tutti/backend/process/environment.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>

#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti {
namespace {

constexpr int kMaxThreads = 1024;

CpuStream::Mode mode_from_environment() {
  return environment_switch("TUTTI_CPU_ASYNC") ? CpuStream::Mode::worker : CpuStream::Mode::run_inline;
}

int threads_from_environment() { return environment_number("TUTTI_CPU_THREADS", 1, 1, kMaxThreads); }

/// For `call`, a function of CPU devices alone.
CpuBackend& cpu_backend_of(Device device, std::string_view call) {
  if (device.kind != DeviceKind::cpu) raise<DeviceError>("[{}] {} is no CPU device", call, to_string(device));
  return static_cast<CpuBackend&>(registered_backend(device.kind));
}

void require_thread_count(std::string_view call, Device device, int threads) {
  if (threads < 1 || threads > kMaxThreads)
    raise<DeviceError>("[{}] {} threads for {}: it must be 1 to {}", call, threads, to_string(device), kMaxThreads);
}

}  // namespace

CpuBackend::Context::Context(Device device, MemoryPool::Keeps keeps, CpuStream::Mode mode, int threads)
    : memory(device, keeps),
      pool(device, memory, keeps),
      threads(threads),
      compute(device, mode),
      communication(device, mode) {}

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
  // A stream whose work ends the process comes first: others may wait for what is behind it.
  for (const bool own : {true, false})
    for (auto& slot : contexts_)
      if (Context* context = slot.load(); context != nullptr)
        for (CpuStream* stream : {&context->compute, &context->communication})
          if (stream->runs_here() == own) stream->stop();
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
  require_thread_count("set_cpu_threads", device, threads);
  cpu_backend_of(device, "set_cpu_threads").threads(device).resize(threads);
}

int cpu_threads(Device device) { return cpu_backend_of(device, "cpu_threads").threads(device).threads(); }

void set_cpu_executor(Device device, int threads, CpuExecutor executor) {
  require_thread_count("set_cpu_executor", device, threads);
  CpuBackend& backend = cpu_backend_of(device, "set_cpu_executor");
  auto held = executor ? std::make_unique<LoopExecutor>(device, std::move(executor)) : nullptr;
  backend.threads(device).run_by(std::move(held), threads);
}

void set_memory_resource(Device device, std::shared_ptr<std::pmr::memory_resource> resource) {
  CpuBackend& backend = cpu_backend_of(device, "set_memory_resource");
  backend.pool(device).trim();
  backend.memory(device).take_from(std::move(resource));
}

}  // namespace tutti
