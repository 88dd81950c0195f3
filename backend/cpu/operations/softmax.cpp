// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/cpu_backend.h>

#include <tutti/backend/cpu/operations/axis_blocks.h>
#include <tutti/backend/cpu/operations/reduce_kernels.h>
#include <tutti/backend/cpu/packs/pack_loops.h>

#include <vector>

namespace tutti {
namespace {

using reduce_kernel::Extreme;
using reduce_kernel::FloatSum;

template <class T> T sum_of(const T* from, std::int64_t length) {
  typename FloatSum<T, false>::Row row;
  row.add(from, length);
  return FloatSum<T, false>::finish(row.total());
}

/// exp(x - max) / sum, or x - max - log(sum), of contiguous elements.
template <class T> void softmax_row(SoftmaxKind kind, const T* from, T* to, std::int64_t length) {
  typename Extreme<T, elementwise::Maximum>::Row largest;
  largest.add(from, length);
  const Pack<T> max(largest.total());
  for_each_pack<T>(0, length, [&](std::int64_t i, std::int64_t count) {
    store_up_to(exp(load_up_to(from + i, count) - max), to + i, count);
  });
  const T sum = sum_of(to, length);
  if (kind == SoftmaxKind::softmax) {
    const Pack<T> scale(T(1) / sum);
    for_each_pack<T>(0, length, [&](std::int64_t i, std::int64_t count) {
      store_up_to(load_up_to(to + i, count) * scale, to + i, count);
    });
  } else {
    const Pack<T> shift(std::log(sum));
    for_each_pack<T>(0, length, [&](std::int64_t i, std::int64_t count) {
      store_up_to(load_up_to(from + i, count) - max - shift, to + i, count);
    });
  }
}

/// softmax y (dy - sum(dy y)); log_softmax dy - exp(y) sum(dy).
template <class T> void gradient_row(SoftmaxKind kind, const T* y, const T* dy, T* to, std::int64_t length) {
  if (kind == SoftmaxKind::softmax) {
    for_each_pack<T>(0, length, [&](std::int64_t i, std::int64_t count) {
      store_up_to(load_up_to(y + i, count) * load_up_to(dy + i, count), to + i, count);
    });
    const Pack<T> sum(sum_of(to, length));
    for_each_pack<T>(0, length, [&](std::int64_t i, std::int64_t count) {
      store_up_to(load_up_to(y + i, count) * (load_up_to(dy + i, count) - sum), to + i, count);
    });
  } else {
    const Pack<T> sum(sum_of(dy, length));
    for_each_pack<T>(0, length, [&](std::int64_t i, std::int64_t count) {
      store_up_to(load_up_to(dy + i, count) - exp(load_up_to(y + i, count)) * sum, to + i, count);
    });
  }
}

/// One line of an axis that is not the last, brought together and put back.
template <class T> class Line {
 public:
  Line(const AxisBlocks& blocks)
      : blocks_(blocks), elements_(static_cast<std::size_t>(blocks.inner > 1 ? blocks.length : 0)) {}

  const T* read(const T* from) {
    if (blocks_.inner == 1) return from;
    for (std::int64_t i = 0; i < blocks_.length; ++i) elements_[static_cast<std::size_t>(i)] = from[i * blocks_.inner];
    return elements_.data();
  }
  T* target(T* to) { return blocks_.inner == 1 ? to : elements_.data(); }
  void write(T* to) const {
    if (blocks_.inner == 1) return;
    for (std::int64_t i = 0; i < blocks_.length; ++i) to[i * blocks_.inner] = elements_[static_cast<std::size_t>(i)];
  }

 private:
  const AxisBlocks& blocks_;
  std::vector<T> elements_;
};

}  // namespace

void CpuBackend::softmax(SoftmaxKind kind, const Array& input, std::size_t axis, const Array& output) {
  stream(output.device())
      .launch(
          kind == SoftmaxKind::softmax ? "softmax" : "log_softmax",
          [kind, axis, &pool = threads(output.device())](const Array& from, const Array& to) {
            const AxisBlocks blocks(from.shape(), axis);
            visit_floating(from.dtype(), [&]<class T>(std::type_identity<T>) {
              pool.parallel_for(blocks.outer * blocks.inner, blocks.grain(), [&](std::int64_t begin, std::int64_t end) {
                Line<T> in(blocks);
                Line<T> out(blocks);
                for (std::int64_t i = begin; i < end; ++i) {
                  T* target = to.data<T>() + blocks.first(i);
                  softmax_row(kind, in.read(from.data<T>() + blocks.first(i)), out.target(target), blocks.length);
                  out.write(target);
                }
              });
            });
          },
          input, output);
}

void CpuBackend::softmax_gradient(SoftmaxKind kind, const Array& output, const Array& gradient, std::size_t axis,
                                  const Array& input_gradient) {
  stream(output.device())
      .launch(
          kind == SoftmaxKind::softmax ? "softmax_gradient" : "log_softmax_gradient",
          [kind, axis, &pool = threads(output.device())](const Array& y, const Array& dy, const Array& to) {
            const AxisBlocks blocks(y.shape(), axis);
            visit_floating(y.dtype(), [&]<class T>(std::type_identity<T>) {
              pool.parallel_for(blocks.outer * blocks.inner, blocks.grain(), [&](std::int64_t begin, std::int64_t end) {
                Line<T> value(blocks);
                Line<T> upstream(blocks);
                Line<T> out(blocks);
                for (std::int64_t i = begin; i < end; ++i) {
                  const std::int64_t first = blocks.first(i);
                  gradient_row(kind, value.read(y.data<T>() + first), upstream.read(dy.data<T>() + first),
                               out.target(to.data<T>() + first), blocks.length);
                  out.write(to.data<T>() + first);
                }
              });
            });
          },
          output, gradient, input_gradient);
}

}  // namespace tutti
