// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/data/row_storage.h>

#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>
#include <tutti/exchange/arrays/host_span.h>

#include <cstring>
#include <vector>

namespace tutti {

RowStorage::RowStorage(const Array& array, Memory memory) {
  if (array.rank() == 0) raise<ShapeError>("[RowStorage] a scalar has no rows");
  const bool is_shared = memory == Memory::shared && array.device().kind == DeviceKind::cpu && array.is_contiguous();
  host_ = is_shared ? array : Array::empty(array.shape(), array.dtype(), cpu());
  wait_for_host_memory(host_);
  rows_ = array.length(0);
  if (rows_ > 0) row_bytes_ = array.bytes() / static_cast<std::size_t>(rows_);
  if (!is_shared && array.bytes() > 0) backend_for(array.device()).copy_to_host(array.contiguous(), host_.raw_data());
}

Array RowStorage::gather(std::span<const std::int64_t> rows, Device device) const {
  std::vector<std::byte> gathered(rows.size() * row_bytes_);
  std::byte* to = gathered.data();
  for (const std::int64_t row : rows) {
    if (row < 0 || row >= rows_) raise<ShapeError>("[RowStorage] row {} of {} asked for", row, rows_);
    if (row_bytes_ > 0) std::memcpy(to, host_.raw_data() + static_cast<std::size_t>(row) * row_bytes_, row_bytes_);
    to += row_bytes_;
  }
  Shape shape = host_.shape();
  shape[0] = static_cast<std::int64_t>(rows.size());
  Array array = Array::empty(shape, host_.dtype(), device);
  if (!gathered.empty()) backend_for(device).copy_from_host(gathered.data(), array);
  return array;
}

}  // namespace tutti
