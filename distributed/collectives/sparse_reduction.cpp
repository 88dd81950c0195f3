// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/collectives/sparse_reduction.h>

#include <tutti/backend/raise.h>
#include <tutti/distributed/collectives/block_sums.h>

#include <algorithm>
#include <memory>

namespace tutti {

namespace {

/// One row on its way into the sum.
template <class T> struct Summand {
  std::int64_t index = 0;
  std::size_t contribution = 0;
  const T* row = nullptr;
};

// By index; those of one index by contribution, and as they were given.
template <class T> std::vector<Summand<T>> sorted_summands(const SparseReduction& request, std::int64_t columns) {
  std::vector<Summand<T>> summands;
  for (std::size_t c = 0; c < request.contributions.size(); ++c)
    for (const SparseGradient& part : request.contributions[c].parts) {
      const auto* indices = part.count() > 0 ? part.indices.data<std::int64_t>() : nullptr;
      const T* rows = part.rows.size() > 0 ? part.rows.data<T>() : nullptr;
      for (std::int64_t i = 0; i < part.count(); ++i)
        summands.push_back({indices[i], c, rows != nullptr ? rows + i * columns : nullptr});
    }
  std::ranges::stable_sort(summands, {}, &Summand<T>::index);
  return summands;
}

template <class From, class Sum> void add_row(const From* from, Sum* to, std::int64_t columns) {
  for (std::int64_t i = 0; i < columns; ++i) to[i] += from[i];
}

/// Sums the rows of one index after the other: those of each contribution by themselves, then the contributions' sums.
template <class T> class RowSum {
 public:
  using Sum = ComputedIn<T>;

  RowSum(const SparseReduction& request, std::int64_t columns)
      : request_(request), columns_(columns), own_(static_cast<std::size_t>(columns)) {}

  const std::vector<Sum>& of(std::span<const Summand<T>> summands) {
    begins_.clear();
    tree_.clear();
    for (std::size_t i = 0; i < summands.size(); ++i) {
      if (i > 0 && summands[i].contribution == summands[i - 1].contribution) continue;
      begins_.push_back(i);
      tree_.add(request_.contributions[summands[i].contribution].number);
    }
    begins_.push_back(summands.size());
    const auto rows_of = [&](std::size_t leaf) {
      return summands.subspan(begins_[leaf], begins_[leaf + 1] - begins_[leaf]);
    };
    walk_sum_tree(
        tree_.joins().data(), begins_.size() - 1,
        [&](std::size_t sum, std::size_t leaf) { sum_rows(rows_of(leaf), sum_at(sum)); },
        [&](std::size_t sum, std::size_t leaf) {
          sum_rows(rows_of(leaf), sum_at(sum));
          add_rows(rows_of(leaf + 1), sum_at(sum));
        },
        [&](std::size_t sum, std::size_t leaf) { add_rows(rows_of(leaf), sum_at(sum)); },
        [&](std::size_t sum, std::size_t next) { add_row(sums_[next].data(), sums_[sum].data(), columns_); });
    return sums_.front();
  }

 private:
  void sum_rows(std::span<const Summand<T>> rows, std::vector<Sum>& sum) const {
    std::copy_n(rows.front().row, columns_, sum.data());
    for (const Summand<T>& each : rows.subspan(1)) add_row(each.row, sum.data(), columns_);
  }
  void add_rows(std::span<const Summand<T>> rows, std::vector<Sum>& sum) {
    if (rows.size() == 1) return add_row(rows.front().row, sum.data(), columns_);
    sum_rows(rows, own_);
    add_row(own_.data(), sum.data(), columns_);
  }
  std::vector<Sum>& sum_at(std::size_t place) {
    if (place == sums_.size()) sums_.emplace_back(static_cast<std::size_t>(columns_));
    return sums_[place];
  }

  const SparseReduction& request_;
  std::int64_t columns_;
  std::vector<std::size_t> begins_;     // first row of each contribution, and the end
  SumTree tree_;                        // tree of the contributions that have such a row
  std::vector<std::vector<Sum>> sums_;  // sums that walk_sum_tree makes
  std::vector<Sum> own_;                // sum of one contribution
};

template <class T> SparseGradient sum_on(Device device, const SparseReduction& request) {
  const std::int64_t columns = columns_of(request.parameter.shape);
  const auto summands = sorted_summands<T>(request, columns);
  std::vector<std::size_t> starts;
  for (std::size_t i = 0; i < summands.size(); ++i)
    if (i == 0 || summands[i].index != summands[i - 1].index) starts.push_back(i);
  const auto count = static_cast<std::int64_t>(starts.size());
  Shape shape = request.parameter.shape;
  shape[0] = count;
  SparseGradient sum{Array::empty({count}, DType::i64, device), Array::empty(shape, request.parameter.dtype, device),
                     request.parameter.shape, true};
  starts.push_back(summands.size());
  using Sum = ComputedIn<T>;  // narrowed once
  RowSum<T> row_sum(request, columns);
  const auto denominator = static_cast<Sum>(request.denominator);
  for (std::int64_t row = 0; row < count; ++row) {
    const std::size_t begin = starts[static_cast<std::size_t>(row)];
    sum.indices.data<std::int64_t>()[row] = summands[begin].index;
    if (columns == 0) continue;
    T* target = sum.rows.data<T>() + row * columns;
    const std::vector<Sum>& total = row_sum.of({&summands[begin], starts[static_cast<std::size_t>(row) + 1] - begin});
    for (std::int64_t i = 0; i < columns; ++i)
      target[i] = static_cast<T>(total[static_cast<std::size_t>(i)] / denominator);
  }
  return sum;
}

SparseGradient sum_of(Device device, const SparseReduction& request) {
  switch (request.parameter.dtype) {
    case DType::f64: return sum_on<double>(device, request);
    case DType::bf16: return sum_on<BFloat16>(device, request);
    case DType::f16: return sum_on<Float16>(device, request);
    default: return sum_on<float>(device, request);
  }
}

// Not by the devices' streams: they may be behind work that waits for this.
Array copy_on(Device device, const Array& array) {
  Array copy = Array::empty(array.shape(), array.dtype(), device);
  std::copy_n(array.raw_data(), array.bytes(), copy.raw_data());
  return copy;
}

}  // namespace

void reduce_sparse(const SparseReduction& request) {
  for (const SparseReduction::Contribution& contribution : request.contributions)
    for (const SparseGradient& part : contribution.parts)
      if (const auto index = index_out_of_range(part, request.parameter))
        raise<SyncError>("[sync] {} submitted parameter \"{}\" with index {} of {} rows",
                         to_string(contribution.member, request.world), request.parameter.name, *index,
                         request.parameter.shape[0]);
  SparseResult& result = *request.result;
  std::optional<SparseGradient> sum;
  for (std::size_t member = 0; member < request.receivers.size(); ++member) {
    if (!result.receives[member]) continue;
    const Device device = request.receivers[member];
    if (!sum) sum = sum_of(device, request);
    const bool own = sum->indices.device() == device;
    result.gradients[member] = {
        own ? *sum : SparseGradient{copy_on(device, sum->indices), copy_on(device, sum->rows), sum->shape, true}};
  }
}

std::optional<std::string> misfit_of(const SparseGradient& part, const SyncParameter& parameter, Device device) {
  if (!part.indices.defined() || !part.rows.defined()) return "rows or indices that are undefined";
  if (part.indices.dtype() != DType::i64)
    return fmt::format("indices of dtype {} in place of i64", to_string(part.indices.dtype()));
  if (part.rows.dtype() != parameter.dtype)
    return fmt::format("rows of dtype {} in place of {}", to_string(part.rows.dtype()), to_string(parameter.dtype));
  if (part.shape != parameter.shape)
    return fmt::format("rows of a table {} in place of {}", to_string(part.shape), to_string(parameter.shape));
  Shape expected = parameter.shape;
  expected[0] = part.indices.size();
  if (part.indices.rank() != 1 || part.rows.shape() != expected)
    return fmt::format("indices of shape {} and rows of shape {} in place of {}", to_string(part.indices.shape()),
                       to_string(part.rows.shape()), to_string(expected));
  for (const Array& array : {part.indices, part.rows}) {
    if (array.device() != device) return fmt::format("rows or indices on {}", to_string(array.device()));
    if (!array.is_contiguous()) return "rows or indices that are not contiguous";
  }
  return std::nullopt;
}

std::optional<std::int64_t> index_out_of_range(const SparseGradient& part, const SyncParameter& parameter) {
  if (part.count() == 0 || parameter.shape[0] == 0) return std::nullopt;
  const std::span indices(part.indices.data<std::int64_t>(), static_cast<std::size_t>(part.count()));
  const auto found =
      std::ranges::find_if(indices, [&](std::int64_t index) { return index < 0 || index >= parameter.shape[0]; });
  return found == indices.end() ? std::nullopt : std::optional(*found);
}

}  // namespace tutti
