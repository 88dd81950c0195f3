// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cuda/kernels/convolution_mapping.h>
#include <tutti/backend/dtype.h>

#include <cuda_runtime_api.h>

#include <cstddef>

namespace tutti::cuda_kernels {

/// How the sum over k of a product is cut, by its sizes alone: parts of `length`, added up in order by a second kernel.
/// One part where the tiles of the result occupy a large device anyway.
struct SumParts {
  static constexpr std::int64_t kTile = 64;  // rows and columns of the result that a block computes
  static constexpr std::int64_t kDepth = 16;

  std::int64_t count;
  std::int64_t length;

  static constexpr SumParts of(std::int64_t m, std::int64_t n, std::int64_t k) {
    constexpr std::int64_t kBlocks = 512;   // wanted
    constexpr std::int64_t kShortest = 16;  // steps of kDepth
    const std::int64_t tiles = divide_up(m, kTile) * divide_up(n, kTile);
    const std::int64_t steps = divide_up(k, kDepth);
    const std::int64_t most = steps / kShortest < kBlocks / tiles ? steps / kShortest : kBlocks / tiles;
    const std::int64_t length = divide_up(steps, most > 1 ? most : 1) * kDepth;
    return {divide_up(k, length), length};
  }
  template <class Product> static constexpr SumParts of(const Product& product) {
    return of(product.m(), product.n(), product.k());
  }
};

/// Bytes of workspace for the parts of a product's sum.
template <class Product> std::size_t partial_bytes(const Product& product, DType dtype) {
  const std::int64_t parts = SumParts::of(product).count;
  return parts == 1 ? 0 : static_cast<std::size_t>(parts * product.m() * product.n()) * size_of(dtype);
}

/// f32 and f64. The same order of additions on every run and device.
void launch_convolution(cudaStream_t, DType, const ForwardProduct&, const void* weight, const void* input, void* output,
                        void* partial);
void launch_convolution(cudaStream_t, DType, const InputGradientProduct&, const void* weight, const void* gradient,
                        void* input_gradient, void* partial);
void launch_convolution(cudaStream_t, DType, const WeightGradientProduct&, const void* gradient, const void* input,
                        void* weight_gradient, void* partial);

}  // namespace tutti::cuda_kernels
