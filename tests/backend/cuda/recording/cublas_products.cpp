// SPDX-License-Identifier: Apache-2.0
// The functions of cuBLASLt that matrix products need, in place of NVIDIA's library. Products are really computed, in
// f64 and in the stream's order; their operands are watched.
#include <tutti/backend/numbers/short_float.h>
#include <tutti/tests/backend/cuda/recording/cuda_machine.h>

#include <fmt/format.h>

#include <cublasLt.h>

#include <algorithm>
#include <cstring>

namespace tutti::testing {

namespace {

using Lock = CudaMachine::Lock;

constexpr std::uint64_t kAlgorithm = 0xA160;  // what marks an algorithm that the heuristic gave
constexpr std::size_t kWorkspace = 4096;      // bytes that it asks for

/// What the opaque descriptors hold here.
struct Layout {
  cudaDataType type;
  std::int32_t batch;
  std::uint64_t rows;
  std::uint64_t columns;
  std::int64_t leading;
  std::int64_t stride;

  /// Calls `f` with an element of the type.
  template <class F> auto visit(const F& f) const {
    switch (type) {
      case CUDA_R_64F: return f(double{});
      case CUDA_R_16BF: return f(BFloat16{});
      case CUDA_R_16F: return f(Float16{});
      default: return f(float{});
    }
  }
  std::size_t size() const {
    return visit([](auto element) { return sizeof(element); });
  }
  std::size_t bytes() const {
    const auto last =
        static_cast<std::uint64_t>((batch - 1) * stride + leading * (static_cast<std::int64_t>(columns) - 1));
    return (last + rows) * size();
  }
  double load(const void* data, std::size_t index) const {
    return visit([&]<class T>(T) { return static_cast<double>(static_cast<const T*>(data)[index]); });
  }
  void store(void* data, std::size_t index, double value) const {
    visit([&]<class T>(T) { static_cast<T*>(data)[index] = static_cast<T>(value); });
  }
  std::size_t at(std::int64_t product, std::uint64_t row, std::uint64_t column) const {
    return static_cast<std::size_t>(product * stride + static_cast<std::int64_t>(column) * leading +
                                    static_cast<std::int64_t>(row));
  }
};
struct Operation {
  cudaDataType scale;
  cublasOperation_t first;
  cublasOperation_t second;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;

  bool adds_bias() const { return epilogue == CUBLASLT_EPILOGUE_BIAS || epilogue == CUBLASLT_EPILOGUE_RELU_BIAS; }
  bool rectifies() const { return epilogue == CUBLASLT_EPILOGUE_RELU || epilogue == CUBLASLT_EPILOGUE_RELU_BIAS; }
};
struct Preference {
  std::size_t workspace;
};

template <class Meaning, class Opaque> Meaning meaning(const Opaque* opaque) {
  static_assert(sizeof(Meaning) <= sizeof(Opaque));
  Meaning found;
  std::memcpy(static_cast<void*>(&found), opaque, sizeof found);
  return found;
}
template <class Meaning, class Opaque> void describe(Opaque* opaque, const Meaning& said) {
  std::memcpy(opaque, &said, sizeof said);
}
template <class T> T value_of(const void* value) {
  T found;
  std::memcpy(&found, value, sizeof found);
  return found;
}

struct Product {
  Layout a, b, c;
  bool transpose_a, transpose_b;
  double alpha, beta;
  const void *first, *second;
  void* output;
  Operation after;  // its epilogue

  std::uint64_t inner() const { return transpose_a ? a.rows : a.columns; }
  bool fits() const {
    return (transpose_a ? a.columns : a.rows) == c.rows && (transpose_b ? b.rows : b.columns) == c.columns &&
           (transpose_b ? b.columns : b.rows) == inner() && a.batch == c.batch && b.batch == c.batch &&
           a.leading >= static_cast<std::int64_t>(a.rows) && b.leading >= static_cast<std::int64_t>(b.rows) &&
           c.leading >= static_cast<std::int64_t>(c.rows);
  }
  void run() const {
    for (std::int64_t product = 0; product < c.batch; ++product)
      for (std::uint64_t column = 0; column < c.columns; ++column)
        for (std::uint64_t row = 0; row < c.rows; ++row) {
          double sum = 0;
          for (std::uint64_t k = 0; k < inner(); ++k)
            sum += a.load(first, transpose_a ? a.at(product, k, row) : a.at(product, row, k)) *
                   b.load(second, transpose_b ? b.at(product, column, k) : b.at(product, k, column));
          const std::size_t place = c.at(product, row, column);
          double value = alpha * sum + (beta == 0 ? 0 : beta * c.load(output, place));
          if (after.adds_bias()) value += c.load(after.bias, row);
          if (after.rectifies()) value = std::max(value, 0.0);
          c.store(output, place, value);
        }
  }
};

/// The test's failures are CUDA's errors: of memory, or other. cuBLAS has a runtime of its own, so that the last error
/// of the caller's stays as it was.
template <class F> cublasStatus_t cublas_call(const char* name, F&& body) {
  CudaMachine* machine = CudaMachine::current();
  if (machine == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  Lock lock(machine->mutex);
  const cudaError_t error = machine->enter(name, {}, false);
  if (error == cudaErrorMemoryAllocation) return CUBLAS_STATUS_ALLOC_FAILED;
  if (error == cudaErrorNotSupported) return CUBLAS_STATUS_NOT_SUPPORTED;
  return error == cudaSuccess ? body(*machine, lock) : CUBLAS_STATUS_EXECUTION_FAILED;
}

double scalar(cudaDataType type, const void* value) {
  return type == CUDA_R_64F ? value_of<double>(value) : value_of<float>(value);
}

cublasStatus_t queue_product(CudaMachine& machine, Lock& lock, cudaStream_t handle, const Product& product,
                             const MemoryUse& workspace) {
  SimulatedStream* stream = machine.stream("cublasLtMatmul", handle);
  if (stream == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  machine.check_device("cublasLtMatmul", *stream);
  if (!product.fits()) {
    machine.fault("cublasLtMatmul of matrices that do not fit");
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  std::vector<MemoryUse> uses{{product.first, product.a.bytes(), false},
                              {product.second, product.b.bytes(), false},
                              {product.output, product.c.bytes(), true},
                              workspace};
  if (product.after.adds_bias()) uses.push_back({product.after.bias, product.c.rows * product.c.size(), false});
  machine.enqueue(lock, *stream, {"cublasLtMatmul", [product] { product.run(); }, {}, {}}, uses);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  return cublas_call("cublasLtCreate", [&](CudaMachine& machine, Lock&) {
    *handle = reinterpret_cast<cublasLtHandle_t>(machine.make_handle("a handle of cuBLASLt"));
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  if (CudaMachine* machine = CudaMachine::current()) {
    const Lock lock(machine->mutex);
    machine->destroy_handle("cublasLtDestroy", handle);
    if (machine->enter("cublasLtDestroy", {}, true) == cudaSuccess) return CUBLAS_STATUS_SUCCESS;
  }
  return CUBLAS_STATUS_INTERNAL_ERROR;
}

const char* cublasLtGetStatusName(cublasStatus_t status) {
  return status == CUBLAS_STATUS_ALLOC_FAILED ? "CUBLAS_STATUS_ALLOC_FAILED" : "CUBLAS_STATUS_EXECUTION_FAILED";
}
const char* cublasLtGetStatusString(cublasStatus_t) { return "an error of the recording machine"; }

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t operation, std::size_t, cublasComputeType_t,
                                               cudaDataType scale) {
  describe(operation, Operation{scale, CUBLAS_OP_N, CUBLAS_OP_N});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t) {
  auto own = meaning<Operation>(operation);
  if (attribute == CUBLASLT_MATMUL_DESC_TRANSA) own.first = value_of<cublasOperation_t>(value);
  if (attribute == CUBLASLT_MATMUL_DESC_TRANSB) own.second = value_of<cublasOperation_t>(value);
  if (attribute == CUBLASLT_MATMUL_DESC_EPILOGUE) own.epilogue = value_of<cublasLtEpilogue_t>(value);
  if (attribute == CUBLASLT_MATMUL_DESC_BIAS_POINTER) own.bias = value_of<const void*>(value);
  describe(operation, own);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, std::size_t, cudaDataType type,
                                                 std::uint64_t rows, std::uint64_t columns, std::int64_t leading) {
  describe(layout, Layout{type, 1, rows, columns, leading, 0});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                                                std::size_t) {
  auto own = meaning<Layout>(layout);
  if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) own.batch = value_of<std::int32_t>(value);
  if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET) own.stride = value_of<std::int64_t>(value);
  describe(layout, own);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t preference, std::size_t) {
  describe(preference, Preference{0});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                                                    std::size_t) {
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
    describe(preference, Preference{value_of<std::size_t>(value)});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int* found) {
  return cublas_call("cublasLtMatmulAlgoGetHeuristic", [&](CudaMachine& machine, Lock&) {
    if (!machine.check_handle("cublasLtMatmulAlgoGetHeuristic", handle) || wanted < 1)
      return CUBLAS_STATUS_INVALID_VALUE;
    results[0] = {};
    results[0].algo.data[0] = kAlgorithm;
    results[0].workspaceSize = std::min(kWorkspace, meaning<Preference>(preference).workspace);
    *found = 1;
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void* alpha,
                              const void* first, cublasLtMatrixLayout_t a, const void* second, cublasLtMatrixLayout_t b,
                              const void* beta, const void* c, cublasLtMatrixLayout_t, void* output,
                              cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
  return cublas_call("cublasLtMatmul", [&](CudaMachine& machine, Lock& lock) {
    if (!machine.check_handle("cublasLtMatmul", handle)) return CUBLAS_STATUS_INVALID_VALUE;
    if (algorithm == nullptr || algorithm->data[0] != kAlgorithm || c != output) return CUBLAS_STATUS_NOT_SUPPORTED;
    const auto own = meaning<Operation>(operation);
    const Product product{meaning<Layout>(a),
                          meaning<Layout>(b),
                          meaning<Layout>(d),
                          own.first != CUBLAS_OP_N,
                          own.second != CUBLAS_OP_N,
                          scalar(own.scale, alpha),
                          scalar(own.scale, beta),
                          first,
                          second,
                          output,
                          own};
    if (own.epilogue != CUBLASLT_EPILOGUE_DEFAULT && !own.adds_bias() && !own.rectifies()) {
      machine.fault(fmt::format("cublasLtMatmul with epilogue {}, which the recorder does not know",
                                static_cast<int>(own.epilogue)));
      return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    if (own.epilogue != CUBLASLT_EPILOGUE_DEFAULT && product.c.type != CUDA_R_32F) {
      machine.fault("cublasLtMatmul with an epilogue, of a type that has none");
      return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    return queue_product(machine, lock, stream, product, {workspace, workspace_bytes, true});
  });
}

}  // extern "C"

}  // namespace tutti::testing
