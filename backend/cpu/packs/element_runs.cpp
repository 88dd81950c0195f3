// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/packs/element_runs.h>

#include <algorithm>
#include <cassert>

namespace tutti {
namespace {

constexpr std::int64_t kElementRunGrain = 32768;  // elements that one thread takes at a time
constexpr std::int64_t kBuffered = 512;
constexpr std::size_t kOperands = ElementRun::kInputs + 1;

using Visit = FunctionRef<void(const ElementRun&)>;

/// Operand 0 is the output. Axes that are contiguous for all operands have been joined, axes of length 1 dropped.
struct Axes {
  std::size_t operands = 0;
  Dims lengths;
  std::array<Strides, kOperands> strides;
  std::array<std::byte*, kOperands> data{};
  std::array<std::int64_t, kOperands> element_bytes{};
};

Axes join_axes(std::span<const Array* const> operands) {
  Axes axes;
  axes.operands = operands.size();
  for (std::size_t i = 0; i < operands.size(); ++i) {
    axes.data[i] = operands[i]->raw_data();
    axes.element_bytes[i] = static_cast<std::int64_t>(size_of(operands[i]->dtype()));
  }
  const Shape& shape = operands[0]->shape();
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const std::int64_t length = shape[axis];
    if (length == 1) continue;
    bool joins = !axes.lengths.empty();
    for (std::size_t i = 0; joins && i < operands.size(); ++i)
      joins = axes.strides[i].back() == operands[i]->strides()[axis] * length;
    const std::size_t last = axes.lengths.size() - 1;
    if (joins) axes.lengths[last] *= length;
    if (!joins) axes.lengths.push_back(length);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const std::int64_t stride = operands[i]->strides()[axis];
      if (joins)
        axes.strides[i][last] = stride;
      else
        axes.strides[i].push_back(stride);
    }
  }
  if (axes.lengths.empty()) {
    axes.lengths.push_back(1);
    for (std::size_t i = 0; i < operands.size(); ++i) axes.strides[i].push_back(1);
  }
  return axes;
}

template <class T> void copy_strided(const std::byte* from, std::int64_t from_stride, std::byte* to,
                                     std::int64_t to_stride, std::int64_t count) {
  const T* source = reinterpret_cast<const T*>(from);
  T* target = reinterpret_cast<T*>(to);
  if (from_stride == -1 && to_stride == 1) {  // known to the compiler, which then turns whole vectors
    for (std::int64_t i = 0; i < count; ++i) target[i].bits = source[-i].bits;
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) target[i * to_stride].bits = source[i * from_stride].bits;
}

void copy_elements(std::int64_t bytes, const std::byte* from, std::int64_t from_stride, std::byte* to,
                   std::int64_t to_stride, std::int64_t count) {
  struct [[gnu::may_alias]] Eight {
    std::uint64_t bits;
  };
  struct [[gnu::may_alias]] Four {
    std::uint32_t bits;
  };
  struct [[gnu::may_alias]] Two {
    std::uint16_t bits;
  };
  struct [[gnu::may_alias]] One {
    std::uint8_t bits;
  };
  switch (bytes) {
    case 8: return copy_strided<Eight>(from, from_stride, to, to_stride, count);
    case 4: return copy_strided<Four>(from, from_stride, to, to_stride, count);
    case 2: return copy_strided<Two>(from, from_stride, to, to_stride, count);
    default: assert(bytes == 1); return copy_strided<One>(from, from_stride, to, to_stride, count);
  }
}

/// Visits `count` elements along the last axis from `data` on.
void visit_row(const Axes& axes, std::int64_t count, std::array<std::byte*, kOperands> data, Visit visit) {
  std::array<std::int64_t, kOperands> stride{};
  bool buffered = false;
  for (std::size_t i = 0; i < axes.operands; ++i) {
    stride[i] = axes.strides[i].back();
    buffered = buffered || !(stride[i] == 1 || (i > 0 && stride[i] == 0));
  }
  alignas(64) std::byte buffers[kOperands][kBuffered * 8];
  ElementRun run;
  for (std::int64_t done = 0; done < count; done += run.count) {
    run.count = buffered ? std::min(kBuffered, count - done) : count;
    for (std::size_t i = 1; i < axes.operands; ++i) {
      const std::byte* from = data[i] + done * stride[i] * axes.element_bytes[i];
      run.repeated[i - 1] = stride[i] == 0;
      const bool direct = stride[i] == 0 || stride[i] == 1;
      if (!direct) copy_elements(axes.element_bytes[i], from, stride[i], buffers[i], 1, run.count);
      run.input[i - 1] = direct ? from : buffers[i];
    }
    std::byte* to = data[0] + done * stride[0] * axes.element_bytes[0];
    run.output = stride[0] == 1 ? to : buffers[0];
    visit(run);
    if (stride[0] != 1) copy_elements(axes.element_bytes[0], buffers[0], 1, to, stride[0], run.count);
  }
}

/// Visits the elements [begin, end) of the row-major order.
void visit_range(const Axes& axes, std::int64_t begin, std::int64_t end, Visit visit) {
  const std::size_t last = axes.lengths.size() - 1;
  Dims position(axes.lengths.size(), 0);
  std::int64_t rest = begin;
  for (std::size_t axis = last + 1; axis-- > 0;) {
    position[axis] = rest % axes.lengths[axis];
    rest /= axes.lengths[axis];
  }
  while (begin < end) {
    std::array<std::byte*, kOperands> data = axes.data;
    for (std::size_t i = 0; i < axes.operands; ++i) {
      std::int64_t offset = 0;
      for (std::size_t axis = 0; axis <= last; ++axis) offset += position[axis] * axes.strides[i][axis];
      data[i] += offset * axes.element_bytes[i];
    }
    const std::int64_t count = std::min(axes.lengths[last] - position[last], end - begin);
    visit_row(axes, count, data, visit);
    begin += count;
    position[last] = 0;
    for (std::size_t axis = last; axis-- > 0;) {
      if (++position[axis] < axes.lengths[axis]) break;
      position[axis] = 0;
    }
  }
}

}  // namespace

bool is_flat(const Array& output, std::span<const Array* const> inputs) {
  if (!output.is_contiguous()) return false;
  for (const Array* input : inputs)
    if (!(input->strides() == output.strides()) && !input->is_contiguous() && !input->is_one_element()) return false;
  return true;
}

ElementRun flat_run(const Array& output, std::span<const Array* const> inputs, std::int64_t begin, std::int64_t count) {
  const auto at = [begin](const Array& array) {
    return array.raw_data() + begin * static_cast<std::int64_t>(size_of(array.dtype()));
  };
  ElementRun run;
  run.count = count;
  run.output = at(output);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    run.repeated[i] = !(inputs[i]->strides() == output.strides()) && inputs[i]->is_one_element();
    run.input[i] = run.repeated[i] ? inputs[i]->raw_data() : at(*inputs[i]);
  }
  return run;
}

void for_each_run(ThreadPool& threads, const Array& output, std::span<const Array* const> inputs, Visit visit) {
  assert(inputs.size() <= ElementRun::kInputs);
  if (is_flat(output, inputs)) {
    threads.parallel_for(output.size(), kElementRunGrain, [&](std::int64_t begin, std::int64_t end) {
      visit(flat_run(output, inputs, begin, end - begin));
    });
    return;
  }
  std::array<const Array*, kOperands> storage{&output};
  std::copy(inputs.begin(), inputs.end(), storage.begin() + 1);
  const Axes axes = join_axes(std::span<const Array* const>(storage.data(), inputs.size() + 1));
  threads.parallel_for(output.size(), kElementRunGrain,
                       [&](std::int64_t begin, std::int64_t end) { visit_range(axes, begin, end, visit); });
}

}  // namespace tutti
