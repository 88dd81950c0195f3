// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/backend/cuda/on_host/device_array.h>

#include <tutti/backend/registry.h>

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

namespace tutti::on_host {

DeviceArray::DeviceArray(const Array& values) {
  synchronize(cpu());
  std::int64_t last = 0;
  for (std::size_t axis = 0; axis < values.rank(); ++axis) last += (values.shape()[axis] - 1) * values.strides()[axis];
  const std::size_t bytes = values.size() == 0 ? 0 : static_cast<std::size_t>(last + 1) * size_of(values.dtype());
  allocate(bytes, reinterpret_cast<std::uintptr_t>(values.raw_data()) % 16);
  std::memcpy(first_, values.raw_data(), bytes);
  lent_ = std::make_unique<LentMemory>("an input", first_, bytes, Lending::reading);
}

DeviceArray::DeviceArray(std::size_t bytes) {
  allocate(bytes, 0);
  std::memset(first_, 0x5a, bytes);
  lent_ = std::make_unique<LentMemory>("an output", first_, bytes, Lending::writing);
}

void DeviceArray::allocate(std::size_t bytes, std::size_t misalignment) {
  memory_ = std::make_unique<std::byte[]>(bytes + misalignment);  // aligned to 16
  first_ = memory_.get() + misalignment;
}

Array DeviceArray::read(const Shape& shape, DType dtype) const {
  const Array values = Array::empty(shape, dtype, cpu());
  std::memcpy(values.raw_data(), first_, values.bytes());
  return values;
}

LentArrays::LentArrays(const std::vector<Array>& inputs, const std::vector<Array>& outputs) {
  synchronize(cpu());
  const auto lend = [this](const Array& array, const char* name, Lending lending) {
    const Storage& storage = *array.storage();
    lent_.push_back(std::make_unique<LentMemory>(name, storage.data(), storage.bytes(), lending));
  };
  for (const Array& input : inputs) lend(input, "an input", Lending::reading);
  for (const Array& output : outputs) lend(output, "an output", Lending::writing);
}

Array in_every_order(const std::function<Array()>& run) {
  using enum Schedule::Order;
  const Schedule before = schedule;
  Array first;
  for (const auto order : {forward, backward, shuffled}) {
    schedule.order = order;
    ++schedule.seed;
    const Array found = run();
    if (!first.defined())
      first = found;
    else
      CHECK_MESSAGE(same_bits(found, first), "the result depends on the order of threads");
  }
  schedule.order = before.order;
  return first;
}

bool same_bits(const Array& a, const Array& b) {
  const Array x = a.contiguous();
  const Array y = b.contiguous();
  synchronize(cpu());
  return x.bytes() == y.bytes() && std::memcmp(x.raw_data(), y.raw_data(), x.bytes()) == 0;
}

namespace {

template <class T> bool is_alike(T found, T expected, double tolerance) {
  if (found == expected || (found != found && expected != expected)) return true;
  const auto wanted = static_cast<double>(expected);
  return tolerance > 0 && std::abs(static_cast<double>(found) - wanted) <= tolerance * (1 + std::abs(wanted));
}

}  // namespace

std::size_t differences(const Array& found, const Array& expected, double tolerance) {
  if (found.shape() != expected.shape()) return 1;
  return visit_dtype(expected.dtype(), [&]<class T>(std::type_identity<T>) {
    const auto a = found.to_vector<T>();
    const auto b = expected.to_vector<T>();
    std::size_t different = 0;
    for (std::size_t i = 0; i < a.size(); ++i) different += is_alike<T>(a[i], b[i], tolerance) ? 0 : 1;
    return different;
  });
}

}  // namespace tutti::on_host
