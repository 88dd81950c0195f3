// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/cpu_backend.h>

#include <tutti/backend/cpu/packs/element_runs.h>
#include <tutti/backend/cpu/packs/wide_lanes.h>
#include <tutti/backend/cpu/packs/widened_runs.h>
#include <tutti/backend/numbers/arithmetic_sequence.h>
#include <tutti/backend/numbers/conversion.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace tutti {
namespace {

template <class T> void copy_run(const ElementRun& run) {
  if (run.repeated[0])
    std::fill_n(run.to<T>(), run.count, *run.from<T>(0));
  else
    std::memcpy(run.output, run.input[0], static_cast<std::size_t>(run.count) * sizeof(T));
}

template <class To, class From> void cast_run(const ElementRun& run) {
  To* to = run.to<To>();
  const From* from = run.from<From>(0);
  if (run.repeated[0])
    std::fill_n(to, run.count, convert<To>(*from));
  else if constexpr (is_short_float<From> && std::is_same_v<To, float>)
    widen(from, to, run.count);
  else if constexpr (is_short_float<To> && std::is_same_v<From, float>)
    narrow(from, to, run.count);
  else
    for (std::int64_t i = 0; i < run.count; ++i) to[i] = convert<To>(from[i]);
}

using RunFunction = void (*)(const ElementRun&);

/// From a type that others are computed in.
RunFunction cast_function(DType from, DType to) {
  return visit_computed_dtype(from, [to]<class From>(std::type_identity<From>) {
    return visit_dtype(to, []<class To>(std::type_identity<To>) -> RunFunction { return cast_run<To, From>; });
  });
}

RunFunction widening_function(DType from) {
  return visit_dtype(
      from, []<class From>(std::type_identity<From>) -> RunFunction { return cast_run<ComputedIn<From>, From>; });
}

}  // namespace

void CpuBackend::copy(const Array& from, const Array& to) {
  if (to.size() == 0) return;
  stream(to.device())
      .launch(
          "copy",
          [&pool = threads(to.device())](const Array& target, const Array& source) {
            const Array* const inputs[] = {&source};
            visit_dtype(target.dtype(), [&]<class T>(std::type_identity<T>) {
              for_each_run(pool, target, inputs, [](const ElementRun& run) { copy_run<T>(run); });
            });
          },
          to, from);
}

void CpuBackend::cast(const Array& from, const Array& to) {
  if (to.size() == 0) return;
  stream(to.device())
      .launch(
          "cast",
          [&pool = threads(to.device())](const Array& target, const Array& source) {
            const Array* const inputs[] = {&source};
            const DType dtype = source.dtype();
            const DType wide = computed_in(dtype);
            if (target.dtype() == wide) return for_each_run(pool, target, inputs, widening_function(dtype));
            const RunFunction function = cast_function(wide, target.dtype());
            if (dtype == wide) return for_each_run(pool, target, inputs, function);
            for_each_run(pool, target, inputs,
                         [&](const ElementRun& run) { run_widened(dtype, target.dtype(), run, function); });
          },
          to, from);
}

void CpuBackend::fill(const Array& to, Scalar value) {
  if (to.size() == 0) return;
  stream(to.device())
      .launch(
          "fill",
          [value, &pool = threads(to.device())](const Array& target) {
            visit_dtype(target.dtype(), [&]<class T>(std::type_identity<T>) {
              const T element = value.to<T>();
              for_each_run(pool, target, {},
                           [element](const ElementRun& run) { std::fill_n(run.to<T>(), run.count, element); });
            });
          },
          to);
}

void CpuBackend::arange(const Array& to, std::int64_t first, std::int64_t step) {
  stream(to.device())
      .launch(
          "arange",
          [first, step](const Array& target) {
            visit_dtype(target.dtype(), [&]<class T>(std::type_identity<T>) {
              T* const values = target.data<T>();
              for (std::int64_t i = 0; i < target.size(); ++i) values[i] = numbered<T>(first, step, i);
            });
          },
          to);
}

}  // namespace tutti
