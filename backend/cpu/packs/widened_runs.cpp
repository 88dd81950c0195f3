// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/packs/widened_runs.h>

#include <tutti/backend/cpu/packs/wide_lanes.h>

#include <algorithm>

namespace tutti {
namespace {

constexpr std::int64_t kChunk = 512;  // widened inputs and results stay in cache

template <class T> void run_chunks(DType output, const ElementRun& run, FunctionRef<void(const ElementRun&)> kernel) {
  using Wide = ComputedIn<T>;
  alignas(64) Wide inputs[ElementRun::kInputs][kChunk];
  alignas(64) Wide results[kChunk];
  const bool narrows = output == dtype_of<T>;
  ElementRun wide = run;
  for (std::int64_t begin = 0; begin < run.count; begin += kChunk) {
    wide.count = std::min(kChunk, run.count - begin);
    for (std::size_t i = 0; i < ElementRun::kInputs && run.input[i] != nullptr; ++i) {
      const T* from = run.from<T>(i) + (run.repeated[i] ? 0 : begin);
      const std::int64_t count = run.repeated[i] ? 1 : wide.count;
      widen(from, inputs[i], count);
      wide.input[i] = reinterpret_cast<const std::byte*>(inputs[i]);
    }
    wide.output = narrows ? reinterpret_cast<std::byte*>(results)
                          : run.output + begin * static_cast<std::int64_t>(size_of(output));
    kernel(wide);
    if (!narrows) continue;
    narrow(results, run.to<T>() + begin, wide.count);
  }
}

}  // namespace

void run_widened(DType narrow, DType output, const ElementRun& run, FunctionRef<void(const ElementRun&)> kernel) {
  visit_dtype(narrow, [&]<class T>(std::type_identity<T>) {
    if constexpr (is_narrow(dtype_of<T>)) run_chunks<T>(output, run, kernel);
  });
}

}  // namespace tutti
