// SPDX-License-Identifier: Apache-2.0
// Compiled once for backend/ and once for backend/cpu/: what nearly every source includes, and would parse again.
// Sources include what they use all the same.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tutti/backend/array.h>
#include <tutti/backend/backend.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>
