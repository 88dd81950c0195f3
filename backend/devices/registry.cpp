// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/registry.h>

#include <tutti/backend/cpu/cpu_backend.h>
#include <tutti/backend/devices/cuda_devices.h>
#include <tutti/backend/raise.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <vector>

namespace tutti {
namespace {

/// All kinds of device, indexed by DeviceKind. Never destroyed: arrays in static variables of any file may give memory
/// back, or be worked on, after other statics are gone. It stays reachable, so leak checkers see no leak.
struct Registry {
  static constexpr std::size_t kMaxKinds = 256;

  std::mutex mutex;  // guards additions; a kind below `count` has its name for good
  std::array<std::string, kMaxKinds> names{"cpu", "cuda"};
  std::array<std::atomic<Backend*>, kMaxKinds> backends{};
  std::atomic<std::size_t> count = static_cast<std::size_t>(DeviceKind::first_custom);
};

constinit std::atomic<Backend*> cpu_backend{nullptr};  // as in the registry, for the shortest way to it

/// What a thread gets in place of registered backends.
struct InPlace {
  Backend* redirected = nullptr;
  BackendDecorator* decorator = nullptr;
  DeviceKind redirected_kind{};
  bool any = false;  // one look for threads that have neither
};
constinit thread_local InPlace in_place{};

Registry& registry() {
  static Registry& instance = *new Registry;
  return instance;
}

/// Workers are joined before the process ends, so that none runs while statics are destroyed; the backend remains and
/// runs inline whatever comes later.
void stop_cpu_workers() { static_cast<CpuBackend*>(cpu_backend.load())->stop_workers(); }

// Without the registry's lock: it may load a library, and initialisers of another one that is loaded at the time may
// ask for devices, too.
Backend& make_cuda() {
  static std::mutex& making = *new std::mutex;  // guards the making, which two threads may ask for
  const std::lock_guard lock(making);
  auto& slot = registry().backends[static_cast<std::size_t>(DeviceKind::cuda)];
  if (slot.load() == nullptr) slot.store(make_cuda_backend().release());
  return *slot.load();
}

Backend& make_built_in(DeviceKind kind) {
  if (kind == DeviceKind::cuda) return make_cuda();
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  auto& slot = all.backends[static_cast<std::size_t>(kind)];
  if (slot.load() == nullptr) {
    auto* made = new CpuBackend;
    slot.store(made);
    cpu_backend.store(made, std::memory_order_release);
    std::atexit(stop_cpu_workers);
  }
  return *slot.load();
}

}  // namespace

Backend& backend_for(DeviceKind kind) {
  if (!in_place.any) return registered_backend(kind);
  if (in_place.redirected != nullptr && in_place.redirected_kind == kind) return *in_place.redirected;
  return decorated_backend(kind);
}

void redirect_backend(DeviceKind kind, Backend* backend) noexcept {
  in_place.redirected_kind = kind;
  in_place.redirected = backend;
  in_place.any = backend != nullptr || in_place.decorator != nullptr;
}

void decorate_backends(BackendDecorator* decorator) noexcept {
  in_place.decorator = decorator;
  in_place.any = decorator != nullptr || in_place.redirected != nullptr;
}

BackendDecorator* backend_decorator() noexcept { return in_place.decorator; }

Backend& decorated_backend(DeviceKind kind) {
  return in_place.decorator != nullptr ? in_place.decorator->decorated(kind) : registered_backend(kind);
}

Backend& registered_backend(DeviceKind kind) {
  if (kind == DeviceKind::cpu) {
    Backend* cpu = cpu_backend.load(std::memory_order_acquire);
    return cpu != nullptr ? *cpu : make_built_in(kind);
  }
  Backend* found = registry().backends[static_cast<std::size_t>(kind)].load(std::memory_order_acquire);
  if (found != nullptr) return *found;
  if (kind < DeviceKind::first_custom) return make_built_in(kind);
  raise<DeviceError>("[device] kind {} was never registered", static_cast<int>(kind));
}

DeviceKind register_backend(std::string name, std::unique_ptr<Backend> backend) {
  if (backend == nullptr) raise<DeviceError>("[device] \"{}\": no backend to register", name);
  if (name.empty() || name.find(':') != std::string::npos)
    raise<DeviceError>("[device] \"{}\" cannot name a kind of device: it is empty or holds a colon", name);
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const std::size_t kind = all.count.load();
  for (std::size_t i = 0; i < kind; ++i)
    if (all.names[i] == name) raise<DeviceError>("[device] kind \"{}\" is registered already", name);
  if (kind == Registry::kMaxKinds) raise<DeviceError>("[device] \"{}\": no room for another kind of device", name);
  all.names[kind] = std::move(name);
  all.backends[kind].store(backend.release(), std::memory_order_release);
  all.count.store(kind + 1, std::memory_order_release);
  return static_cast<DeviceKind>(kind);
}

std::string_view kind_name(DeviceKind kind) {
  const Registry& all = registry();
  const auto index = static_cast<std::size_t>(kind);
  return index < all.count.load(std::memory_order_acquire) ? std::string_view(all.names[index]) : "unregistered";
}

DeviceKind kind_named(std::string_view name) {
  const Registry& all = registry();
  const std::size_t count = all.count.load(std::memory_order_acquire);
  for (std::size_t kind = 0; kind < count; ++kind)
    if (all.names[kind] == name) return static_cast<DeviceKind>(kind);
  raise<DeviceError>("[device] there is no kind \"{}\": known are {}", name,
                     fmt::join(all.names.begin(), all.names.begin() + static_cast<std::ptrdiff_t>(count), ", "));
}

}  // namespace tutti
