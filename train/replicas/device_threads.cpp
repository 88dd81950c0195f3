// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/device_threads.h>

#include <tutti/backend/cpu_threads.h>
#include <tutti/backend/process/start_thread.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>
#include <tutti/distributed/gradient_sync.h>

#include <atomic>
#include <exception>
#include <mutex>
#include <string_view>
#include <thread>

namespace tutti {

std::vector<Device> devices_of(const std::string& kind, std::int64_t count, std::optional<int> threads_per_device) {
  if (count < 1) raise<Error>("{} devices: at least one is needed", count);
  std::vector<Device> devices;
  for (std::int64_t d = 0; d < count; ++d) {
    devices.push_back(parse_device(kind + ":" + std::to_string(d)));
    const Device device = devices.back();
    if (device.kind != DeviceKind::cpu) continue;
    const int own = cpu_threads(device);  // DeviceError where there is no such device
    set_cpu_threads(device, threads_per_device.value_or(own));
  }
  return devices;
}

std::string devices_text(const std::vector<Device>& devices) {
  const auto counted = [](std::size_t count, std::string_view what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
  };
  const Device first = devices.at(0);
  std::string text = counted(devices.size(), fmt::format("{} device", kind_name(first.kind)));
  if (first.kind != DeviceKind::cpu) return text;
  text += ", " + counted(static_cast<std::size_t>(cpu_threads(first)), "thread");
  if (devices.size() > 1) text += " each";
  return text + ", on " + counted(std::thread::hardware_concurrency(), "core");
}

void on_every_device(std::size_t count, const std::function<void(std::size_t)>& work) {
  std::mutex mutex;  // devices fail at the same time
  std::exception_ptr cause;
  std::exception_ptr echo;
  // Nobody begins before all threads are there: the others would wait for a device that has none.
  enum Start : int { not_yet, go, none };
  std::atomic<int> start{not_yet};
  const auto run = [&](std::size_t d) {
    start.wait(not_yet);
    if (start == none) return;
    try {
      work(d);
    } catch (const SyncError&) {
      const std::lock_guard lock(mutex);
      if (!echo) echo = std::current_exception();
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!cause) cause = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  const auto finish = [&](Start how) {
    start = how;
    start.notify_all();
    for (std::thread& thread : threads) thread.join();
  };
  threads.reserve(count);
  try {
    for (std::size_t d = 0; d < count; ++d) threads.push_back(start_thread("devices", [&run, d] { run(d); }));
  } catch (...) {
    finish(none);
    throw;
  }
  finish(go);
  if (cause) std::rethrow_exception(cause);
  if (echo) std::rethrow_exception(echo);
}

void on_every_device(GradientSync& sync, const std::function<void(std::size_t)>& work) {
  const std::vector<Device> devices = sync.devices();
  on_every_device(devices.size(), [&](std::size_t d) {
    try {
      work(d);
    } catch (...) {
      const std::exception_ptr error = std::current_exception();
      try {
        sync.fail(devices[d], error);
      } catch (const SyncError&) {  // the group is closed, or of another process: nobody waits
      }
      std::rethrow_exception(error);
    }
  });
}

}  // namespace tutti
