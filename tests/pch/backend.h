// SPDX-License-Identifier: Apache-2.0
// Compiled once for each test executable of the backend: what nearly every test includes, and would parse again.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/tests/test_devices.h>
