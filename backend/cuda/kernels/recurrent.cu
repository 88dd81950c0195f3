// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/kernels/recurrent.h>

#include <tutti/backend/cuda/kernels/parts/launch.cuh>
#include <tutti/backend/formulas/recurrent_formulas.h>

namespace tutti::cuda_kernels {
namespace {

/// Rows of `blocks` blocks of `length` elements each; null: zeros, which take nothing.
template <class T> struct Rows {
  T* data;
  std::int64_t blocks;
  std::int64_t length;

  __device__ __forceinline__ std::int64_t at(std::int64_t row, std::int64_t block, std::int64_t i) const {
    return (row * blocks + block) * length + i;
  }
  __device__ __forceinline__ std::remove_const_t<T> load(std::int64_t row, std::int64_t block, std::int64_t i) const {
    return data == nullptr ? T(0) : data[at(row, block, i)];
  }
  __device__ __forceinline__ void store(T x, std::int64_t row, std::int64_t block, std::int64_t i) const {
    if (data != nullptr) data[at(row, block, i)] = x;
  }
};

template <class T> struct StepRows {
  Rows<const T> input;
  Rows<const T> product;
  Rows<const T> bias;
  Rows<T> hidden;
  Rows<T> cell;
  Rows<T> output;
  Rows<T> kept;
  Rows<T> hidden_before;
  Rows<T> cell_before;
};

template <class T> struct GradientRows {
  Rows<const T> kept;
  Rows<const T> hidden_before;
  Rows<const T> cell_before;
  Rows<const T> gradient;
  Rows<T> hidden_gradient;
  Rows<T> cell_gradient;
  Rows<T> input_gradient;
  Rows<T> product_gradient;
};

/// Calls `f(row, i)` for each element of [rows, length], a thread for one at a time.
template <class F> __device__ void for_each_element(std::int64_t rows, std::int64_t length, const F& f) {
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t at = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; at < rows * length; at += step)
    f(at / length, at % length);
}

template <class T, class Step> __global__ void __launch_bounds__(kThreads)
    take_step(const __grid_constant__ StepRows<T> arrays, std::int64_t rows, std::int64_t length) {
  for_each_element(rows, length, [&](std::int64_t row, std::int64_t i) {
    T from_input[Step::kGates];
    T from_hidden[Step::kGates];
    T blocks[Step::kKept];
    TUTTI_UNROLL
    for (int gate = 0; gate < Step::kGates; ++gate) {
      from_input[gate] = arrays.input.load(row, gate, i);
      from_hidden[gate] = arrays.product.load(row, gate, i) + arrays.bias.load(0, gate, i);
    }
    const T before = arrays.hidden.load(row, 0, i);
    T cell = arrays.cell.load(row, 0, i);
    arrays.hidden_before.store(before, row, 0, i);
    arrays.cell_before.store(cell, row, 0, i);
    const T after = Step::value(from_input, from_hidden, before, cell, blocks);
    arrays.hidden.store(after, row, 0, i);
    arrays.output.store(after, row, 0, i);
    arrays.cell.store(cell, row, 0, i);
    TUTTI_UNROLL
    for (int block = 0; block < Step::kKept; ++block) arrays.kept.store(blocks[block], row, block, i);
  });
}

template <class T, class Step> __global__ void __launch_bounds__(kThreads)
    step_back(const __grid_constant__ GradientRows<T> arrays, std::int64_t rows, std::int64_t length) {
  for_each_element(rows, length, [&](std::int64_t row, std::int64_t i) {
    T blocks[Step::kKept];
    T to_input[Step::kGates];
    T to_hidden[Step::kGates];
    TUTTI_UNROLL
    for (int block = 0; block < Step::kKept; ++block) blocks[block] = arrays.kept.load(row, block, i);
    const T dh = arrays.gradient.load(row, 0, i) + arrays.hidden_gradient.load(row, 0, i);
    T dcell = arrays.cell_gradient.load(row, 0, i);
    const T before = Step::gradient(blocks, arrays.hidden_before.load(row, 0, i), arrays.cell_before.load(row, 0, i),
                                    dh, dcell, to_input, to_hidden);
    arrays.hidden_gradient.store(before, row, 0, i);
    arrays.cell_gradient.store(dcell, row, 0, i);
    TUTTI_UNROLL
    for (int gate = 0; gate < Step::kGates; ++gate) {
      arrays.input_gradient.store(to_input[gate], row, gate, i);
      arrays.product_gradient.store(to_hidden[gate], row, gate, i);
    }
  });
}

template <class F> void visit_step(RecurrentGates gates, DType dtype, const F& f) {
  const auto with = [&]<class T>(std::type_identity<T>) {
    recurrent_formulas::visit(gates, [&]<class Step>(Step) { f.template operator()<T, Step>(); });
  };
  if (dtype == DType::f64)
    with(std::type_identity<double>{});
  else
    with(std::type_identity<float>{});
}

}  // namespace

void launch_recurrent_step(cudaStream_t stream, RecurrentGates gates, DType dtype, const RecurrentStepArrays& arrays) {
  visit_step(gates, dtype, [&]<class T, class Step>() {
    const auto read = [&](const void* data, std::int64_t blocks) {
      return Rows<const T>{static_cast<const T*>(data), blocks, arrays.length};
    };
    const auto written = [&](void* data, std::int64_t blocks) {
      return Rows<T>{static_cast<T*>(data), blocks, arrays.length};
    };
    const StepRows<T> rows{read(arrays.input_part, Step::kGates),
                           read(arrays.product, Step::kGates),
                           read(arrays.bias, Step::kGates),
                           written(arrays.hidden, 1),
                           written(arrays.cell, 1),
                           written(arrays.output, 1),
                           written(arrays.kept, Step::kKept),
                           written(arrays.hidden_before, 1),
                           written(arrays.cell_before, 1)};
    launch(take_step<T, Step>, blocks_for(arrays.rows * arrays.length), kThreads, stream, rows, arrays.rows,
           arrays.length);
  });
}

void launch_recurrent_step_gradient(cudaStream_t stream, RecurrentGates gates, DType dtype,
                                    const RecurrentGradientArrays& arrays) {
  visit_step(gates, dtype, [&]<class T, class Step>() {
    const auto read = [&](const void* data, std::int64_t blocks) {
      return Rows<const T>{static_cast<const T*>(data), blocks, arrays.length};
    };
    const auto written = [&](void* data, std::int64_t blocks) {
      return Rows<T>{static_cast<T*>(data), blocks, arrays.length};
    };
    const GradientRows<T> rows{read(arrays.kept, Step::kKept),
                               read(arrays.hidden_before, 1),
                               read(arrays.cell_before, 1),
                               read(arrays.gradient, 1),
                               written(arrays.hidden_gradient, 1),
                               written(arrays.cell_gradient, 1),
                               written(arrays.input_gradient, Step::kGates),
                               written(arrays.product_gradient, Step::kGates)};
    launch(step_back<T, Step>, blocks_for(arrays.rows * arrays.length), kThreads, stream, rows, arrays.rows,
           arrays.length);
  });
}

}  // namespace tutti::cuda_kernels
