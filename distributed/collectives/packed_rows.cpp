// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/collectives/packed_rows.h>

#include <tutti/backend/raise.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace tutti {

namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 40U;

std::size_t aligned(std::size_t bytes) {
  return (bytes + PackedRows::kAlignment - 1) / PackedRows::kAlignment * PackedRows::kAlignment;
}

}  // namespace

PackedRows::PackedRows(std::string engine, SyncParameter parameter, std::span<const Member> members)
    : engine_(std::move(engine)), parameter_(std::move(parameter)), members_(members.begin(), members.end()) {}

std::int64_t PackedRows::count_of(const SparseParts& parts) {
  std::int64_t count = 0;
  for (const SparseGradient& part : parts) count += part.count();
  return count;
}

std::size_t PackedRows::bytes_of_indices(std::int64_t count) const {
  return aligned(static_cast<std::size_t>(count) * sizeof(std::int64_t));
}
std::size_t PackedRows::bytes_of_rows(std::int64_t count) const {
  return aligned(static_cast<std::size_t>(count * columns_of(parameter_.shape)) * size_of(parameter_.dtype));
}

void PackedRows::pack(const SparseParts& parts, std::byte* to) const {
  const std::int64_t count = count_of(parts);
  std::byte* indices = to;
  std::byte* rows = to + bytes_of_indices(count);
  const auto append = [](std::byte*& end, const Array& array) {
    if (array.size() > 0) std::memcpy(end, array.raw_data(), array.bytes());
    end += array.bytes();
  };
  for (const SparseGradient& part : parts) {
    append(indices, part.indices);
    append(rows, part.rows);
  }
  std::fill(indices, to + bytes_of_indices(count), std::byte{});
  std::fill(rows, to + bytes_of(count), std::byte{});
}

void PackedRows::check(int rank, std::size_t number, std::uint64_t count) const {
  const auto width = static_cast<std::uint64_t>(columns_of(parameter_.shape)) * size_of(parameter_.dtype);
  if (count > kMostBytes / (sizeof(std::int64_t) + width) || number >= members_.size() || members_[number].rank != rank)
    raise<SyncError>("[{}] rank {} says that device {} of {} has {} rows of parameter \"{}\"", engine_, rank, number,
                     members_.size(), count, parameter_.name);
}

SparseReduction::Contribution PackedRows::contribution(std::size_t number, std::int64_t count, std::byte* block) const {
  Shape shape = parameter_.shape;
  shape[0] = count;
  SparseGradient part{
      Array::over(block, nullptr, DType::i64, {count}, {1}, cpu(0)),
      Array::over(block + bytes_of_indices(count), nullptr, parameter_.dtype, shape, contiguous_strides(shape), cpu(0)),
      parameter_.shape};
  return {members_[number], number, {std::move(part)}};
}

void PackedRows::order(std::vector<SparseReduction::Contribution>& contributions) const {
  std::ranges::sort(contributions, {}, &SparseReduction::Contribution::number);
  const auto twice = std::ranges::adjacent_find(contributions, {}, &SparseReduction::Contribution::number);
  if (twice != contributions.end())
    raise<SyncError>("[{}] parameter \"{}\" has rows of device {} twice", engine_, parameter_.name, twice->number);
}

}  // namespace tutti
