// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cuda/kernels/convolution.h>

#include <tutti/backend/cuda/kernels/parts/launch.cuh>
#include <tutti/backend/cuda/kernels/parts/quad.h>

namespace tutti::cuda_kernels {
namespace {

constexpr int kTile = SumParts::kTile;
constexpr int kDepth = SumParts::kDepth;
constexpr int kSide = 4;                                             // a thread computes kSide x kSide results
constexpr int kLoads = kTile * kDepth / static_cast<int>(kThreads);  // elements of a tile that a thread fetches
constexpr int kAcross = kTile / kSide;                               // threads along each side of a tile
constexpr int kRow = kTile + kSide;                                  // of a tile in shared memory: fewer conflicts
static_assert(kAcross * kAcross == static_cast<int>(kThreads));

/// Which part of which group's product a block computes.
struct Task {
  std::int64_t m;
  std::int64_t n;
  std::int64_t group;
  std::int64_t part;

  template <class Product> __device__ Task(std::int64_t block, const Product& product) {
    const Division across = divide(block, divide_up(product.m(), kTile));
    const Division down = divide(across.quotient, divide_up(product.n(), kTile));
    const Division groups = divide(down.quotient, product.c.groups);
    m = across.remainder * kTile;
    n = down.remainder * kTile;
    group = groups.remainder;
    part = groups.quotient;
  }
};

/// Fetches a thread's share of the lhs's tiles: column k of a tile is read by neighbours, along k.
template <class Product, class T> class LhsTiles {
 public:
  __device__ LhsTiles(const Product& product, const T* from, std::int64_t m) : product_(product), from_(from), m_(m) {}

  __device__ void fetch(std::int64_t begin, std::int64_t end, const typename Product::Row* rows) {
    const std::int64_t k = begin + threadIdx.x % kDepth;
    const typename Product::Row row = rows[threadIdx.x % kDepth];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const std::int64_t m = m_ + line(i);
      next_[i] = k < end && m < product_.m() ? from_[product_.lhs(m, k, row)] : T(0);
    }
  }
  __device__ void store(T (*tile)[kRow]) const {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) tile[threadIdx.x % kDepth][line(i)] = next_[i];
  }

 private:
  __device__ static int line(int i) { return static_cast<int>(threadIdx.x) / kDepth + i * (kTile / kLoads); }

  const Product& product_;
  const T* from_;
  std::int64_t m_;
  T next_[kLoads];
};

/// The same for the rhs, whose neighbours in memory lie along n or along k.
template <class Product, class T> class RhsTiles {
  static constexpr bool kAlongK = Product::kReadsAlongK;
  static constexpr int kColumns = kAlongK ? kLoads : 1;

 public:
  __device__ RhsTiles(const Product& product, const T* from, std::int64_t n) : product_(product), from_(from) {
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      const std::int64_t at = n + column(i);
      exists_[i] = at < product.n();
      columns_[i] = product.column(exists_[i] ? at : 0);
    }
  }

  __device__ void fetch(std::int64_t begin, std::int64_t end, const typename Product::Row* rows) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int column = kAlongK ? i : 0;
      const bool exists = begin + depth(i) < end && exists_[column];
      const std::int64_t offset = exists ? product_.rhs(rows[depth(i)], columns_[column]) : kNone;
      next_[i] = offset == kNone ? T(0) : from_[offset];
    }
  }
  __device__ void store(T (*tile)[kRow]) const {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) tile[depth(i)][column(i)] = next_[i];
  }

 private:
  __device__ static int depth(int i) {
    return kAlongK ? static_cast<int>(threadIdx.x) % kDepth
                   : static_cast<int>(threadIdx.x) / kTile + i * (kDepth / kLoads);
  }
  __device__ static int column(int i) {
    return kAlongK ? static_cast<int>(threadIdx.x) / kDepth + i * (kTile / kLoads)
                   : static_cast<int>(threadIdx.x) % kTile;
  }

  const Product& product_;
  const T* from_;
  typename Product::Column columns_[kColumns];
  bool exists_[kColumns];
  T next_[kLoads];
};

template <class T> __device__ void multiply_tiles(const T (*lhs)[kRow], const T (*rhs)[kRow], T (*sums)[kSide]) {
  const int row = static_cast<int>(threadIdx.x) / kAcross * kSide;
  const int column = static_cast<int>(threadIdx.x) % kAcross * kSide;
#pragma unroll
  for (int k = 0; k < kDepth; ++k) {
    const auto a = *reinterpret_cast<const Quad<T>*>(&lhs[k][row]);
    const auto b = *reinterpret_cast<const Quad<T>*>(&rhs[k][column]);
#pragma unroll
    for (int i = 0; i < kSide; ++i)
#pragma unroll
      for (int j = 0; j < kSide; ++j) sums[i][j] += a.at[i] * b.at[j];
  }
}

/// Works out what depends on k alone, once for all threads. It takes divisions.
template <class Product>
__device__ void find_rows(const Product& product, std::int64_t begin, typename Product::Row* rows) {
  const std::int64_t k = begin + threadIdx.x;
  if (threadIdx.x < kDepth) rows[threadIdx.x] = product.row(k < product.k() ? k : 0);
}

/// To the result if this is the whole of it, else to the part's place.
template <class Product, class T> __device__ void store_sums(const Product& product, const Task& task, bool is_whole,
                                                             const T (*sums)[kSide], T* to, T* partial) {
#pragma unroll
  for (int j = 0; j < kSide; ++j) {
    const std::int64_t n = task.n + threadIdx.x % kAcross * kSide + j;
    if (n >= product.n()) break;
#pragma unroll
    for (int i = 0; i < kSide; ++i) {
      const std::int64_t m = task.m + threadIdx.x / kAcross * kSide + i;
      if (m >= product.m()) break;
      if (is_whole)
        to[task.group * product.result_step() + product.result(m, n)] = sums[i][j];
      else
        partial[((task.part * product.c.groups + task.group) * product.m() + m) * product.n() + n] = sums[i][j];
    }
  }
}

/// One tile of one part of the result. The next tiles are fetched while the present ones are multiplied.
template <class Product, class T> __global__ void __launch_bounds__(kThreads)
    multiply(const Product product, const SumParts parts, const T* __restrict__ lhs, const T* __restrict__ rhs,
             T* __restrict__ to, T* __restrict__ partial) {
  alignas(16) __shared__ T lhs_tile[kDepth][kRow];
  alignas(16) __shared__ T rhs_tile[kDepth][kRow];
  __shared__ typename Product::Row rows[2][kDepth];  // of the tiles fetched next, and of those after them
  const Task task(blockIdx.x, product);
  const std::int64_t begin = task.part * parts.length;
  const std::int64_t end = begin + parts.length < product.k() ? begin + parts.length : product.k();
  LhsTiles<Product, T> lhs_tiles(product, lhs + task.group * product.lhs_step(), task.m);
  RhsTiles<Product, T> rhs_tiles(product, rhs + task.group * product.rhs_step(), task.n);
  T sums[kSide][kSide] = {};
  find_rows(product, begin, rows[0]);
  find_rows(product, begin + kDepth, rows[1]);
  __syncthreads();
  lhs_tiles.fetch(begin, end, rows[0]);
  rhs_tiles.fetch(begin, end, rows[0]);
  int next = 1;
  for (std::int64_t k = begin; k < end; k += kDepth, next = 1 - next) {
    lhs_tiles.store(lhs_tile);
    rhs_tiles.store(rhs_tile);
    __syncthreads();
    if (k + kDepth < end) {
      lhs_tiles.fetch(k + kDepth, end, rows[next]);
      rhs_tiles.fetch(k + kDepth, end, rows[next]);
      find_rows(product, k + 2 * kDepth, rows[1 - next]);
    }
    multiply_tiles<T>(lhs_tile, rhs_tile, sums);
    __syncthreads();
  }
  store_sums(product, task, parts.count == 1, sums, to, partial);
}

template <class Product, class T> __global__ void __launch_bounds__(kThreads)
    add_parts(const Product product, std::int64_t parts, const T* __restrict__ partial, T* __restrict__ to) {
  const std::int64_t size = product.c.groups * product.m() * product.n();
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < size; i += step) {
    T sum = partial[i];
    for (std::int64_t part = 1; part < parts; ++part) sum += partial[part * size + i];
    const Place at(product, i);
    to[at.group * product.result_step() + product.result(at.m, at.n)] = sum;
  }
}

template <class Product, class T> void launch_product(cudaStream_t stream, const Product& product, const void* lhs,
                                                      const void* rhs, void* to, void* partial) {
  const SumParts parts = SumParts::of(product);
  const std::int64_t groups = product.c.groups;
  const std::int64_t blocks = groups * divide_up(product.m(), kTile) * divide_up(product.n(), kTile) * parts.count;
  launch(multiply<Product, T>, static_cast<unsigned>(blocks), kThreads, stream, product, parts,
         static_cast<const T*>(lhs), static_cast<const T*>(rhs), static_cast<T*>(to), static_cast<T*>(partial));
  if (parts.count == 1) return;
  launch(add_parts<Product, T>, blocks_for(groups * product.m() * product.n()), kThreads, stream, product, parts.count,
         static_cast<const T*>(partial), static_cast<T*>(to));
}

template <class Product> void launch_typed(cudaStream_t stream, DType dtype, const Product& product, const void* lhs,
                                           const void* rhs, void* to, void* partial) {
  if (is_narrow(product.c))
    launch_narrow_convolution(stream, dtype, product, lhs, rhs, to);
  else if (dtype == DType::f64)
    launch_product<Product, double>(stream, product, lhs, rhs, to, partial);
  else
    launch_product<Product, float>(stream, product, lhs, rhs, to, partial);
}

}  // namespace

void launch_convolution(cudaStream_t stream, DType dtype, const ForwardProduct& product, const void* weight,
                        const void* input, void* output, void* partial) {
  launch_typed(stream, dtype, product, weight, input, output, partial);
}

void launch_convolution(cudaStream_t stream, DType dtype, const InputGradientProduct& product, const void* weight,
                        const void* gradient, void* input_gradient, void* partial) {
  launch_typed(stream, dtype, product, weight, gradient, input_gradient, partial);
}

void launch_convolution(cudaStream_t stream, DType dtype, const WeightGradientProduct& product, const void* gradient,
                        const void* input, void* weight_gradient, void* partial) {
  launch_typed(stream, dtype, product, gradient, input, weight_gradient, partial);
}

}  // namespace tutti::cuda_kernels
