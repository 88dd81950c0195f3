// SPDX-License-Identifier: Apache-2.0
#include <tutti/c_api.h>

#include <tutti/backend/cpu_threads.h>
#include <tutti/backend/registry.h>
#include <tutti/c_api/calls/arguments.h>
#include <tutti/c_api/calls/guard.h>
#include <tutti/version.h>

using namespace tutti;
using namespace tutti::c_api;

std::int32_t tutti_c_api_version() { return TUTTI_C_API_VERSION; }

const char* tutti_version() { return TUTTI_VERSION; }

const char* tutti_status_name(tutti_status status) {
  switch (status) {
    case TUTTI_OK: return "TUTTI_OK";
    case TUTTI_ERROR: return "TUTTI_ERROR";
    case TUTTI_INVALID_ARGUMENT: return "TUTTI_INVALID_ARGUMENT";
    case TUTTI_SHAPE_ERROR: return "TUTTI_SHAPE_ERROR";
    case TUTTI_DTYPE_ERROR: return "TUTTI_DTYPE_ERROR";
    case TUTTI_DEVICE_ERROR: return "TUTTI_DEVICE_ERROR";
    case TUTTI_OUT_OF_MEMORY: return "TUTTI_OUT_OF_MEMORY";
    case TUTTI_AUTODIFF_ERROR: return "TUTTI_AUTODIFF_ERROR";
    case TUTTI_SYNC_ERROR: return "TUTTI_SYNC_ERROR";
    case TUTTI_DATA_ERROR: return "TUTTI_DATA_ERROR";
    case TUTTI_CALLBACK_FAILED: return "TUTTI_CALLBACK_FAILED";
    case TUTTI_INTERNAL_ERROR: return "TUTTI_INTERNAL_ERROR";
    default: return "unknown status";
  }
}

tutti_status tutti_device_available(const char* device, std::int32_t* available) {
  return guarded("tutti_device_available", [&] {
    require(available, "available");
    const Device named = parse_device(required_text(device, "device"));
    // The reason stays as the thread's last error.
    *available = guarded("tutti_device_available", [&] { backend_for(named).check(named); }) == TUTTI_OK ? 1 : 0;
  });
}

tutti_status tutti_set_cpu_threads(const char* device, std::int32_t threads) {
  return guarded("tutti_set_cpu_threads", [&] { set_cpu_threads(device_named(device), threads); });
}

tutti_status tutti_cpu_threads(const char* device, std::int32_t* threads) {
  return guarded("tutti_cpu_threads", [&] { required(threads, "threads") = cpu_threads(device_named(device)); });
}
