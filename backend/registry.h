// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/backend.h>

#include <memory>
#include <string>
#include <string_view>

namespace tutti {

/// The backend that drives devices of this kind. Throws `DeviceError` for a kind that was not built or registered.
Backend& backend_for(DeviceKind);
inline Backend& backend_for(Device device) { return backend_for(device.kind); }

/// The same, also on a thread whose calls are redirected or decorated.
Backend& registered_backend(DeviceKind);

/// Sets what the calling thread gets for this kind from `backend_for`; null: what is registered
/// (backend/capture/capture.h).
void redirect_backend(DeviceKind, Backend*) noexcept;

/// Whoever puts a backend around those of a thread, one for each kind of device (backend/profile.h).
class BackendDecorator {
 public:
  /// The backend around the registered one, the same for a kind each time.
  virtual Backend& decorated(DeviceKind) = 0;

 protected:
  ~BackendDecorator() = default;
};

/// Sets what decorates the backends of the calling thread; null: nothing. What is redirected is not decorated, but for
/// the kernels that it runs by `decorated_backend`.
void decorate_backends(BackendDecorator*) noexcept;
BackendDecorator* backend_decorator() noexcept;  ///< the calling thread's; null: none

/// The registered backend, or what decorates it on the calling thread, also where calls are redirected.
Backend& decorated_backend(DeviceKind);

/// Adds a kind of device from outside the tree; its devices are then "name:0", "name:1", ... The backend lives until
/// the process ends and is not destroyed, since arrays in static variables may outlive everything else. Throws
/// `DeviceError` for a name that is taken or holds a colon. Thread-safe.
DeviceKind register_backend(std::string name, std::unique_ptr<Backend>);

std::string_view kind_name(DeviceKind);
DeviceKind kind_named(std::string_view name);  ///< throws `DeviceError` listing the known kinds

// Shorthands for `backend_for(device).…(device)`.
inline Stream& compute_stream(Device device) { return backend_for(device).compute_stream(device); }
inline MemoryPool& memory_pool(Device device) { return backend_for(device).pool(device); }
inline void synchronize(Device device) { compute_stream(device).synchronize(); }

}  // namespace tutti
