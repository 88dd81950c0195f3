// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/row_storage.h>

#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>

#include <cstring>

namespace tutti {

RowStorage::RowStorage(const Array& array) : shape_(array.shape()), dtype_(array.dtype()) {
  if (array.rank() == 0) raise<ShapeError>("[RowStorage] a scalar has no rows");
  rows_ = shape_[0];
  bytes_.resize(array.bytes());
  if (rows_ > 0) row_bytes_ = bytes_.size() / static_cast<std::size_t>(rows_);
  if (!bytes_.empty()) backend_for(array.device()).copy_to_host(array.contiguous(), bytes_.data());
}

Array RowStorage::gather(std::span<const std::int64_t> rows, Device device) const {
  std::vector<std::byte> gathered(rows.size() * row_bytes_);
  std::byte* to = gathered.data();
  for (const std::int64_t row : rows) {
    if (row < 0 || row >= rows_) raise<ShapeError>("[RowStorage] row {} of {} asked for", row, rows_);
    if (row_bytes_ > 0) std::memcpy(to, bytes_.data() + static_cast<std::size_t>(row) * row_bytes_, row_bytes_);
    to += row_bytes_;
  }
  Shape shape = shape_;
  shape[0] = static_cast<std::int64_t>(rows.size());
  Array array = Array::empty(shape, dtype_, device);
  if (!gathered.empty()) backend_for(device).copy_from_host(gathered.data(), array);
  return array;
}

}  // namespace tutti
