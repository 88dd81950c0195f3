// SPDX-License-Identifier: Apache-2.0
// device_probe [COUNT]: whether this machine has that many of the devices that TUTTI_TEST_DEVICE names, 1 by default.
// If not, says on stdout which one it lacks and why, and ends with 77.
#include <tutti/backend/array.h>
#include <tutti/backend/registry.h>
#include <tutti/tests/test_devices.h>

#include <cstdio>
#include <cstdlib>
#include <exception>

int main(int argc, char** argv) {
  using namespace tutti;
  const long count = argc > 1 ? std::strtol(argv[1], nullptr, 10) : 1;
  try {
    for (long i = 0; i < count; ++i) {
      const Array array = Array::zeros({1}, DType::f32, test_device(static_cast<std::size_t>(i)));
      synchronize(array.device());
    }
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 77;
  }
  return 0;
}
