// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/runtime/literal_arrays.h>

#include <algorithm>
#include <cstring>

namespace tutti {

Array LiteralArrays::find(Scalar value, DType dtype) {
  std::uint64_t bits = 0;
  visit_dtype(dtype, [&]<class T>(std::type_identity<T>) {
    const T typed = value.to<T>();
    std::memcpy(&bits, &typed, sizeof(T));
  });
  const std::lock_guard lock(mutex_);
  const auto place =
      std::ranges::find_if(known_, [&](const Known& each) { return each.dtype == dtype && each.bits == bits; });
  if (place != known_.end()) {
    std::rotate(known_.begin(), place, place + 1);
  } else {
    if (known_.size() == kMost) known_.pop_back();
    known_.insert(known_.begin(), {dtype, bits, Array::full({}, value, dtype, device_)});
  }
  return known_.front().array;
}

}  // namespace tutti
