// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/array.h>
#include <tutti/backend/cpu/runtime/function_ref.h>
#include <tutti/backend/cpu/runtime/thread_pool.h>
#include <tutti/backend/elementwise/element_run.h>

#include <cstdint>
#include <span>

namespace tutti {

/// True if the output and the inputs, arrays of one shape, are contiguous, or, inputs, one element that stands for all.
bool is_flat(const Array& output, std::span<const Array* const> inputs);
/// The run of `count` elements from `begin` on of what is flat.
ElementRun flat_run(const Array& output, std::span<const Array* const> inputs, std::int64_t begin, std::int64_t count);

/// Cuts arrays of one shape, of any strides, into runs that cover each element once, spread over the threads in blocks
/// of fixed size. Elements in other strides pass through small buffers, so `visit` need not know of strides.
void for_each_run(ThreadPool&, const Array& output, std::span<const Array* const> inputs,
                  FunctionRef<void(const ElementRun&)> visit);

}  // namespace tutti
