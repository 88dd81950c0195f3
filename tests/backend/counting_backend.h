// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/forwarding_backend.h>

#include <cstdint>
#include <map>
#include <string_view>

namespace tutti::testing {

/// A decorator as users write it: one function.
class CountingBackend final : public ForwardingBackend<CountingBackend> {
 public:
  using ForwardingBackend::ForwardingBackend;
  std::map<std::string_view, int> calls;
  std::int64_t written = 0;

  template <class Kernel, class... Arguments> void call(Kernel, const Arguments&... arguments) {
    ++calls[Kernel::name];
    kernel::for_each_output<Kernel>([&](const Array& output) { written += output.size(); }, arguments...);
    Kernel::run(inner(), arguments...);
  }
};

}  // namespace tutti::testing
