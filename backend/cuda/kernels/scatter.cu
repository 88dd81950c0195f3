// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/kernels/scatter.h>

#include <tutti/backend/cuda/kernels/parts/launch.cuh>
#include <tutti/backend/cuda/kernels/parts/line_combine.cuh>
#include <tutti/backend/cuda/kernels/parts/numbered_sort.cuh>
#include <tutti/backend/cuda/kernels/parts/quad.h>
#include <tutti/backend/cuda/kernels/parts/reduce_terms.h>

#include <bit>

namespace tutti::cuda_kernels {
namespace {

/// What an element becomes by an update, and the terms by which a warp joins many.
template <class T, class Operation, class JoiningTerms> struct Join {
  using Element = T;
  using Terms = JoiningTerms;
  TUTTI_HOST_DEVICE static T apply(T x, T update) { return Operation{}.value(x, update); }
  static constexpr auto kFault =
      std::is_same_v<Operation, elementwise::Add> ? IndexFault::Operation::scatter_add : IndexFault::Operation::scatter;
};
template <class T> struct Replacement {
  using Element = T;
  TUTTI_HOST_DEVICE static T apply(T, T update) { return update; }
  static constexpr auto kFault = IndexFault::Operation::scatter;
};

/// Calls `f` with the join of elements of this type. Those that are set are copied: only their size matters.
template <class F> void visit_join(Scatter kind, DType dtype, F&& f) {
  if (kind == Scatter::set) {
    switch (size_of(dtype)) {
      case 8: return f(Replacement<std::uint64_t>{});
      case 4: return f(Replacement<std::uint32_t>{});
      case 2: return f(Replacement<std::uint16_t>{});
      default: return f(Replacement<std::uint8_t>{});
    }
  }
  visit_computed_dtype(dtype, [&]<class T>(std::type_identity<T>) {
    if constexpr (!std::is_same_v<T, bool>) {
      using Sum = std::conditional_t<std::is_floating_point_v<T>, FloatSum<T, false>, IntegerSum<T, false>>;
      using elementwise::Maximum;
      using elementwise::Minimum;
      switch (kind) {
        case Scatter::add: return f(Join<T, elementwise::Add, Sum>{});
        case Scatter::prod: return f(Join<T, elementwise::Multiply, Product<T>>{});
        case Scatter::max: return f(Join<T, Maximum, Extreme<T, Maximum>>{});
        default: return f(Join<T, Minimum, Extreme<T, Minimum>>{});
      }
    }
  });
}

template <class Join, class T = typename Join::Element> __global__ void __launch_bounds__(kThreads)
    scatter_lines(const Selection selection, const T* __restrict__ updates, const std::int64_t* __restrict__ index,
                  T* to, IndexFault* fault) {
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t line = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; line < selection.lines(); line += step)
    for (std::int64_t position = 0; position < selection.length; ++position) {
      const std::int64_t i = selection.element(line, position);
      const std::int64_t chosen = index[i];
      if (selection.in_range(chosen)) {
        T& element = to[selection.place(i, chosen)];
        element = Join::apply(element, updates[i]);
      } else {
        selection.report(fault, Join::kFault, chosen);
      }
    }
}

/// What is sorted: the places that updates point to, and the updates' numbers from `begin` on. What is out of range
/// gets the place behind the last.
__global__ void __launch_bounds__(kThreads)
    list_places(const Selection selection, const SortedUpdates range, const std::int64_t* __restrict__ index,
                std::uint64_t* __restrict__ places, std::uint32_t* __restrict__ numbers,
                IndexFault::Operation operation, IndexFault* fault) {
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < range.count; i += step) {
    const std::int64_t chosen = index[range.begin + i];
    const bool valid = selection.in_range(chosen);
    if (!valid) selection.report(fault, operation, chosen);
    places[i] = static_cast<std::uint64_t>(valid ? selection.place(range.begin + i, chosen) : range.places);
    numbers[i] = static_cast<std::uint32_t>(i);
  }
}

/// Joins `element` with updates of one place, from `begin` on; how many, or kLongRun when there are as many or more.
template <class Join, class T> __device__ std::int64_t join_run(const std::uint64_t* places,
                                                                const std::uint32_t* numbers, std::int64_t count,
                                                                std::int64_t begin, const T* updates, T& element) {
  const std::uint64_t place = places[begin];
  std::int64_t length = 0;
  for (; length < kLongRun && begin + length < count && places[begin + length] == place; ++length)
    element = Join::apply(element, updates[numbers[begin + length]]);
  return length;
}

/// The same by a whole warp, to the end of the run.
template <class Terms, class T> __device__ T join_long_run(const std::uint64_t* places, const std::uint32_t* numbers,
                                                           std::int64_t count, std::int64_t begin, const T* updates,
                                                           std::uint32_t lane) {
  const std::uint64_t place = places[begin];
  typename Terms::Accumulated joined = Terms::identity();
  for (std::int64_t i = begin + lane; i < count && places[i] == place; i += LineLayout::kWarp)
    joined = Terms::add(joined, updates[numbers[i]]);
  __syncwarp();
  for (std::uint32_t distance = LineLayout::kWarp / 2; distance > 0; distance /= 2)
    joined = Terms::combine(joined, exchange(joined, distance));
  return Terms::finish(joined);
}

/// A thread for each sorted update; that of a run's first joins the run, with the help of its warp if it is long.
template <class Join, class T = typename Join::Element> __global__ void __launch_bounds__(kThreads)
    join_runs(std::int64_t count, std::uint64_t end, const std::uint64_t* __restrict__ places,
              const std::uint32_t* __restrict__ numbers, const T* __restrict__ updates, T* __restrict__ to) {
  const std::uint32_t lane = threadIdx.x % LineLayout::kWarp;
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t block = std::int64_t{blockIdx.x} * kThreads; block < count; block += step) {
    const std::int64_t i = block + threadIdx.x;
    const bool first = i < count && places[i] < end && (i == 0 || places[i - 1] != places[i]);
    bool is_long = false;
    if (first) {
      T element = to[places[i]];
      is_long = join_run<Join>(places, numbers, count, i, updates, element) == kLongRun;
      if (!is_long) to[places[i]] = element;
    }
    __syncwarp();
    for (std::uint32_t left = __ballot_sync(0xffffffffU, is_long); left != 0; left &= left - 1) {
      const auto leader = static_cast<std::uint32_t>(__ffs(static_cast<int>(left)) - 1);
      const T joined = join_long_run<typename Join::Terms>(places, numbers, count, i - lane + leader, updates, lane);
      if (lane == leader) to[places[i]] = Join::apply(to[places[i]], joined);
    }
  }
}

/// Columns that a warp takes at a time, of one run of rows.
constexpr std::int64_t kTile = LineLayout::kWarp * Quad<float>::kLength;

/// A warp for each sorted row and tile of columns: that of a run's first adds the run's rows to what the output holds.
template <class T, bool kQuads> __global__ void __launch_bounds__(kThreads)
    add_row_runs(std::int64_t count, std::uint64_t end, const std::uint64_t* __restrict__ places,
                 const std::uint32_t* __restrict__ numbers, const T* __restrict__ updates, std::int64_t columns,
                 T* __restrict__ to) {
  constexpr std::int64_t kEach = Quad<T>::kLength;
  constexpr std::int64_t kTogether = 4;  // rows, so that their loads overlap
  const std::int64_t lane = threadIdx.x % LineLayout::kWarp;
  const std::int64_t tiles = divide_up(columns, kTile);
  const std::int64_t step = std::int64_t{gridDim.x} * (kThreads / LineLayout::kWarp);
  std::int64_t item = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) / LineLayout::kWarp;
  for (; item < count * tiles; item += step) {
    const Division at = divide(item, tiles);
    const std::int64_t i = at.quotient;
    const std::uint64_t row = places[i];
    if (row >= end || (i > 0 && places[i - 1] == row)) continue;
    std::int64_t length = 0;
    for (;;) {
      const std::int64_t next = i + length + lane;
      const std::uint32_t differ = __ballot_sync(0xffffffffU, next >= count || places[next] != row);
      length += differ == 0 ? LineLayout::kWarp : __ffs(static_cast<int>(differ)) - 1;
      if (differ != 0) break;
    }
    const std::int64_t first = at.remainder * kTile + (kQuads ? lane * kEach : lane);
    if (first >= columns) continue;
    constexpr std::int64_t kStride = kQuads ? 1 : LineLayout::kWarp;
    const auto load = [&](const T* line) {
      Quad<T> part{};
      if constexpr (kQuads) {
        part = *reinterpret_cast<const Quad<T>*>(line + first);
      } else {
        TUTTI_UNROLL
        for (std::int64_t k = 0; k < kEach; ++k)
          if (first + k * kStride < columns) part.at[k] = line[first + k * kStride];
      }
      return part;
    };
    T* const target = to + static_cast<std::int64_t>(row) * columns;
    double sum[kEach];
    const Quad<T> before = load(target);
    TUTTI_UNROLL
    for (std::int64_t k = 0; k < kEach; ++k) sum[k] = before.at[k];
    const auto add = [&](const Quad<T>& part) {
      TUTTI_UNROLL
      for (std::int64_t k = 0; k < kEach; ++k) sum[k] += part.at[k];
    };
    std::int64_t done = 0;
    for (; done + kTogether <= length; done += kTogether) {
      Quad<T> parts[kTogether];
      TUTTI_UNROLL
      for (std::int64_t r = 0; r < kTogether; ++r) parts[r] = load(updates + numbers[i + done + r] * columns);
      TUTTI_UNROLL
      for (std::int64_t r = 0; r < kTogether; ++r) add(parts[r]);
    }
    for (; done < length; ++done) add(load(updates + numbers[i + done] * columns));
    if constexpr (kQuads) {
      Quad<T> after;
      TUTTI_UNROLL
      for (std::int64_t k = 0; k < kEach; ++k) after.at[k] = static_cast<T>(sum[k]);
      *reinterpret_cast<Quad<T>*>(target + first) = after;
    } else {
      TUTTI_UNROLL
      for (std::int64_t k = 0; k < kEach; ++k)
        if (first + k * kStride < columns) target[first + k * kStride] = static_cast<T>(sum[k]);
    }
  }
}

/// The last of each run takes its place.
template <class T> __global__ void __launch_bounds__(kThreads)
    set_last(std::int64_t count, std::uint64_t end, const std::uint64_t* __restrict__ places,
             const std::uint32_t* __restrict__ numbers, const T* __restrict__ updates, T* __restrict__ to) {
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += step)
    if (places[i] < end && (i + 1 == count || places[i + 1] != places[i])) to[places[i]] = updates[numbers[i]];
}

template <class Join> constexpr auto kRunKernel = join_runs<Join, typename Join::Element>;
template <class T> constexpr auto kRunKernel<Replacement<T>> = set_last<T>;

/// Of the places, and of the one behind the last.
int bits_of(const SortedUpdates& updates) {
  return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(updates.places)));
}

/// Sorts the places of these updates, and their numbers with them.
cudaError_t sort_places(cudaStream_t stream, IndexFault::Operation operation, const Selection& selection,
                        const SortedUpdates& range, const std::int64_t* index, IndexFault* fault, NumberedSort& parts) {
  launch(list_places, blocks_for(range.count), kThreads, stream, selection, range, index, parts.keys, parts.numbers,
         operation, fault);
  return parts.sort(range.count, bits_of(range), stream);
}

}  // namespace

void launch_scatter_lines(cudaStream_t stream, Scatter kind, DType dtype, const Selection& selection,
                          const void* updates, const std::int64_t* index, void* to, IndexFault* fault) {
  visit_join(kind, dtype, [&]<class Join>(Join) {
    using T = typename Join::Element;
    launch(scatter_lines<Join, T>, blocks_for(selection.lines()), kThreads, stream, selection,
           static_cast<const T*>(updates), index, static_cast<T*>(to), fault);
  });
}

cudaError_t scatter_workspace(const SortedUpdates& updates, std::size_t& bytes) {
  return NumberedSort::workspace(updates.count, bits_of(updates), bytes);
}

cudaError_t launch_scatter_sorted(cudaStream_t stream, Scatter kind, DType dtype, const Selection& selection,
                                  const SortedUpdates& range, const void* updates, const std::int64_t* index, void* to,
                                  IndexFault* fault, void* workspace, std::size_t workspace_bytes) {
  NumberedSort parts(workspace, workspace_bytes, range.count);
  const auto operation = kind == Scatter::add ? IndexFault::Operation::scatter_add : IndexFault::Operation::scatter;
  const cudaError_t error = sort_places(stream, operation, selection, range, index, fault, parts);
  if (error != cudaSuccess) return error;
  visit_join(kind, dtype, [&]<class Join>(Join) {
    using T = typename Join::Element;
    launch(kRunKernel<Join>, blocks_for(range.count), kThreads, stream, range.count,
           static_cast<std::uint64_t>(range.places), parts.sorted_keys, parts.sorted_numbers,
           static_cast<const T*>(updates) + range.begin, static_cast<T*>(to));
  });
  return cudaSuccess;
}

cudaError_t launch_add_rows(cudaStream_t stream, DType dtype, const SortedUpdates& range, std::int64_t columns,
                            const void* from, const std::int64_t* index, void* to, IndexFault* fault, std::int64_t axis,
                            void* workspace, std::size_t workspace_bytes) {
  NumberedSort parts(workspace, workspace_bytes, range.count);
  const Selection rows{{}, range.begin + range.count, range.begin + range.count, 1, axis, range.places, 1};
  const cudaError_t error = sort_places(stream, IndexFault::Operation::scatter_add, rows, range, index, fault, parts);
  if (error != cudaSuccess) return error;
  const unsigned blocks = blocks_for(range.count * divide_up(columns, kTile), kThreads / LineLayout::kWarp);
  const auto launch_typed = [&]<class T>(std::type_identity<T>) {
    const T* const updates = static_cast<const T*>(from) + range.begin * columns;
    const bool quads = lies_in_quads(updates, columns) && lies_in_quads(to, columns);
    launch(quads ? add_row_runs<T, true> : add_row_runs<T, false>, blocks, kThreads, stream, range.count,
           static_cast<std::uint64_t>(range.places), parts.sorted_keys, parts.sorted_numbers, updates, columns,
           static_cast<T*>(to));
  };
  if (dtype == DType::f64)
    launch_typed(std::type_identity<double>{});
  else
    launch_typed(std::type_identity<float>{});
  return cudaSuccess;
}

}  // namespace tutti::cuda_kernels
