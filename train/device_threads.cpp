// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/device_threads.h>

#include <tutti/backend/cpu_threads.h>
#include <tutti/backend/error.h>

#include <exception>
#include <mutex>
#include <thread>

namespace tutti {

std::vector<Device> devices_of(const std::string& kind, std::int64_t count, int threads_per_device) {
  if (count < 1) raise<Error>("{} devices: at least one is needed", count);
  std::vector<Device> devices;
  for (std::int64_t d = 0; d < count; ++d) {
    devices.push_back(parse_device(kind + ":" + std::to_string(d)));
    if (devices.back().kind == DeviceKind::cpu) set_cpu_threads(devices.back(), threads_per_device);
  }
  return devices;
}

void on_every_device(std::size_t count, const std::function<void(std::size_t)>& work) {
  std::mutex mutex;  // devices fail at the same time
  std::exception_ptr cause;
  std::exception_ptr echo;
  std::vector<std::jthread> threads;  // joined whatever happens
  for (std::size_t d = 0; d < count; ++d)
    threads.emplace_back([&, d] {
      try {
        work(d);
      } catch (const SyncError&) {
        const std::lock_guard lock(mutex);
        if (!echo) echo = std::current_exception();
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!cause) cause = std::current_exception();
      }
    });
  for (std::jthread& thread : threads) thread.join();
  if (cause) std::rethrow_exception(cause);
  if (echo) std::rethrow_exception(echo);
}

}  // namespace tutti
