// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/cpu_backend.h>

#include <tutti/backend/cpu/operations/reduce_kernels.h>
#include <tutti/backend/cpu/operations/reduce_plan.h>
#include <tutti/backend/cpu/runtime/divide_up.h>

#include <algorithm>
#include <span>
#include <string_view>

namespace tutti {
namespace {

using namespace reduce_kernel;

// Long reductions are cut into segments whose results are joined in order; by size alone, never by thread count.
constexpr std::int64_t kSegment = 65536;
constexpr std::int64_t kReduceGrain = 32768;

constexpr std::int64_t grain(std::int64_t work) {
  return std::max<std::int64_t>(1, kReduceGrain / std::max<std::int64_t>(1, work));
}

/// Joins `segments` partial results of each output and stores them.
template <class Kernel, class Accumulated, class T> void join(std::span<const Accumulated> partial,
                                                              std::int64_t segments, std::int64_t width, T* to,
                                                              std::int64_t to_stride, std::int64_t first) {
  for (std::int64_t column = 0; column < width; ++column) {
    Accumulated total = partial[static_cast<std::size_t>(first + column)];
    for (std::int64_t i = 1; i < segments; ++i)
      total = Kernel::combine(total, partial[static_cast<std::size_t>(first + i * width + column)]);
    to[column * to_stride] = Kernel::finish(total);
  }
}

/// The last axis is reduced: each output is made of rows that lie together.
template <class Kernel, class T> void reduce_rows(ThreadPool& threads, const ReducePlan& plan, const T* from, T* to) {
  const std::int64_t length = plan.inner.length;
  const std::int64_t pieces = divide_up(length, kSegment);  // of each row
  const std::int64_t lines = ReducePlan::count(plan.reduced) * pieces;
  const std::int64_t per_segment = std::max<std::int64_t>(1, kSegment / std::min(length, kSegment));
  const std::int64_t segments = divide_up(lines, per_segment);
  const std::int64_t outputs = ReducePlan::count(plan.kept);
  const auto reduce_segment = [&](std::int64_t output, std::int64_t segment) {
    const T* base = from + ReducePlan::offsets(plan.kept, output).input;
    typename Kernel::Row row;
    const std::int64_t end = std::min(lines, (segment + 1) * per_segment);
    for (std::int64_t line = segment * per_segment; line < end; ++line) {
      const std::int64_t begin = line % pieces * kSegment;
      row.add(base + ReducePlan::offsets(plan.reduced, line / pieces).input + begin,
              std::min(kSegment, length - begin));
    }
    return row.total();
  };
  const std::int64_t work = std::min(lines, per_segment) * std::min(length, kSegment);
  if (segments == 1) {
    threads.parallel_for(outputs, grain(work), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        to[ReducePlan::offsets(plan.kept, i).output] = Kernel::finish(reduce_segment(i, 0));
    });
    return;
  }
  CachedVector<typename Kernel::Accumulated> partial(static_cast<std::size_t>(outputs * segments));
  threads.parallel_for(outputs * segments, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      partial[static_cast<std::size_t>(i)] = reduce_segment(i / segments, i % segments);
  });
  for (std::int64_t i = 0; i < outputs; ++i)
    join<Kernel, typename Kernel::Accumulated>(partial, segments, 1, to + ReducePlan::offsets(plan.kept, i).output, 0,
                                               i * segments);
}

/// The last axis is kept: rows are added to a strip of outputs side by side.
template <class Kernel, class T>
void reduce_columns(ThreadPool& threads, const ReducePlan& plan, const T* from, T* to) {
  using Accumulated = typename Kernel::Accumulated;
  const std::int64_t width = plan.inner.length;
  const std::int64_t strips = divide_up(width, kStrip);
  const std::int64_t rows = ReducePlan::count(plan.reduced);
  const std::int64_t per_segment = kSegment / std::min(width, kStrip);
  const std::int64_t segments = divide_up(rows, per_segment);
  const std::int64_t last_rows = plan.reduced.empty() ? 1 : plan.reduced.back().length;
  const std::int64_t last_stride = plan.reduced.empty() ? 0 : plan.reduced.back().stride;
  const auto reduce_segment = [&](std::int64_t strip, std::int64_t segment, Accumulated* sums) {
    const std::int64_t column = strip % strips * kStrip;
    const std::int64_t count = std::min(kStrip, width - column);
    const T* base = from + ReducePlan::offsets(plan.kept, strip / strips).input + column;
    std::fill_n(sums, count, Kernel::kIdentity);
    const std::int64_t end = std::min(rows, (segment + 1) * per_segment);
    for (std::int64_t row = segment * per_segment; row < end;) {
      const std::int64_t batch = std::min(last_rows - row % last_rows, end - row);
      Kernel::columns(base + ReducePlan::offsets(plan.reduced, row).input, batch, last_stride, count, sums);
      row += batch;
    }
  };
  const auto target = [&](std::int64_t strip) {
    return to + ReducePlan::offsets(plan.kept, strip / strips).output +
           strip % strips * kStrip * plan.inner.output_stride;
  };
  const auto columns_of = [&](std::int64_t strip) { return std::min(kStrip, width - strip % strips * kStrip); };
  const std::int64_t all = ReducePlan::count(plan.kept) * strips;
  if (segments == 1) {
    threads.parallel_for(all, grain(rows * std::min(width, kStrip)), [&](std::int64_t begin, std::int64_t end) {
      Accumulated sums[kStrip];
      for (std::int64_t strip = begin; strip < end; ++strip) {
        reduce_segment(strip, 0, sums);
        T* outputs = target(strip);
        for (std::int64_t i = 0; i < columns_of(strip); ++i)
          outputs[i * plan.inner.output_stride] = Kernel::finish(sums[i]);
      }
    });
    return;
  }
  CachedVector<Accumulated> partial(static_cast<std::size_t>(all * segments * kStrip));
  threads.parallel_for(all * segments, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t strip = i / segments;
      reduce_segment(strip, i % segments,
                     &partial[static_cast<std::size_t>(strip * segments * kStrip + i % segments * columns_of(strip))]);
    }
  });
  for (std::int64_t strip = 0; strip < all; ++strip)
    join<Kernel, typename Kernel::Accumulated>(partial, segments, columns_of(strip), target(strip),
                                               plan.inner.output_stride, strip * segments * kStrip);
}

template <class Kernel, class T>
void reduce_with(ThreadPool& threads, const ReducePlan& plan, const Array& from, const Array& to) {
  if (plan.inner_is_kept)
    reduce_columns<Kernel>(threads, plan, from.data<T>(), to.data<T>());
  else
    reduce_rows<Kernel>(threads, plan, from.data<T>(), to.data<T>());
}

template <class T>
void reduce_kind(ThreadPool& threads, Reduction kind, const ReducePlan& plan, const Array& from, const Array& to) {
  switch (kind) {
    case Reduction::sum:
      if constexpr (std::is_floating_point_v<T>)
        return reduce_with<FloatSum<T, false>, T>(threads, plan, from, to);
      else
        return reduce_with<IntegerSum<T, false>, T>(threads, plan, from, to);
    case Reduction::sum_of_squares:
      if constexpr (std::is_floating_point_v<T>)
        return reduce_with<FloatSum<T, true>, T>(threads, plan, from, to);
      else
        return reduce_with<IntegerSum<T, true>, T>(threads, plan, from, to);
    case Reduction::max: return reduce_with<Extreme<T, elementwise::Maximum>, T>(threads, plan, from, to);
    case Reduction::min: return reduce_with<Extreme<T, elementwise::Minimum>, T>(threads, plan, from, to);
    case Reduction::prod: return reduce_with<Product<T>, T>(threads, plan, from, to);
  }
}

}  // namespace

void CpuBackend::reduce(Reduction kind, const Array& input, const Array& output) {
  ReducePlan plan(input, output);
  if (!plan.is_dense()) return reduce(kind, input.copy(), output);
  stream(output.device())
      .launch(
          "reduce",
          [kind, plan = std::move(plan), &pool = threads(output.device())](const Array& from, const Array& to) {
            visit_computed_dtype(from.dtype(), [&]<class T>(std::type_identity<T>) {
              if constexpr (!std::is_same_v<T, bool>) reduce_kind<T>(pool, kind, plan, from, to);
            });
          },
          input, output);
}

}  // namespace tutti
