// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/backend.h>

#include <tutti/backend/numbers/arithmetic_sequence.h>
#include <tutti/backend/registry.h>

#include <cstddef>
#include <memory>

namespace tutti {

void Backend::copy_from_device(const Array& from, const Array& to) {
  const std::unique_ptr<std::byte[]> host(new std::byte[from.bytes()]);
  backend_for(from.device()).copy_to_host(from, host.get());
  copy_from_host(host.get(), to);
}

void Backend::arange(const Array& to, std::int64_t first, std::int64_t step) {
  visit_dtype(to.dtype(), [&]<class T>(std::type_identity<T>) {
    const std::unique_ptr<T[]> values(new T[static_cast<std::size_t>(to.size())]);
    for (std::int64_t i = 0; i < to.size(); ++i) values[static_cast<std::size_t>(i)] = numbered<T>(first, step, i);
    copy_from_host(values.get(), to);
  });
}

Array Backend::literal(Scalar value, DType dtype, Device device) { return Array::full({}, value, dtype, device); }

std::unique_ptr<DeviceGraph> Backend::make_graph(Device, MemoryPool&, const std::function<void()>&) { return nullptr; }

void Backend::elementwise_chain(std::span<const ElementwiseStep> steps) {
  for (const ElementwiseStep& step : steps) elementwise(step.call, step.inputs, step.output);
}

}  // namespace tutti
