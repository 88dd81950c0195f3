// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/calls/kept_name.h>

#include <mutex>
#include <unordered_set>
#include <utility>

namespace tutti {

std::string_view kept_name(std::string name) {
  static std::mutex& mutex = *new std::mutex;
  static auto& names = *new std::unordered_set<std::string>;
  const std::scoped_lock lock(mutex);
  return *names.insert(std::move(name)).first;
}

}  // namespace tutti
