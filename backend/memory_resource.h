// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/device.h>

#include <memory>
#include <memory_resource>

namespace tutti {

/// Has the memory of one CPU device's arrays come from the program's own resource; null: from the C library's heap, as
/// by default. The device's pool goes on keeping blocks and handing them out: it asks for whole blocks, with an
/// alignment of 64, and gives each back with the size that it was asked for.
///
/// Called by the program before the device has arrays, or once they are gone and its streams are synchronised, on any
/// thread. Throws `DeviceError` for other devices, and `Error` where the device still holds memory.
///
/// The resource is called on every thread that makes an array of the device or lets the last reference to one go,
/// threads of the library among them: it is thread-safe, and uses neither an array of the device nor its pool, under
/// whose lock it is called. In a child (`fork`) it may be asked, too. `std::bad_alloc` makes
/// the pool give back what it keeps and ask once more; then it is the `OutOfMemoryError` that names the device. What
/// else it throws comes out of what was to make the array. Memory of a lower alignment is an `Error`. `deallocate`
/// throws nothing.
///
/// The device keeps the resource until another takes its place, and to the end of the process: arrays may be static.
/// What the resource itself takes from must live as long; `std::pmr` resources that are never destroyed are given with
/// a deleter that does nothing.
void set_memory_resource(Device, std::shared_ptr<std::pmr::memory_resource>);

}  // namespace tutti
