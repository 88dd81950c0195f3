// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cuda/plans/matmul_plan.h>
#include <tutti/backend/device.h>
#include <tutti/backend/dtype.h>

#include <cublasLt.h>

#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

namespace tutti {

/// Everything that decides which of cuBLAS's algorithms suits a product.
struct CublasProblem {
  DType dtype;
  bool tf32;  ///< f32 may be multiplied in TF32
  MatmulPlan::Operand first;
  MatmulPlan::Operand second;
  MatmulPlan::Operand output;
  std::int64_t batch;
  std::uint32_t alignment;  ///< common alignment of all addresses, in bytes
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  friend bool operator==(const CublasProblem&, const CublasProblem&) = default;
};

/// A problem's descriptors, which live where they are needed: making them allocates nothing.
struct CublasDescriptors {
  cublasLtMatmulDescOpaque_t operation;
  cublasLtMatrixLayoutOpaque_t first;
  cublasLtMatrixLayoutOpaque_t second;
  cublasLtMatrixLayoutOpaque_t output;

  /// `bias` is read by epilogues that add one.
  CublasDescriptors(Device, const CublasProblem&, const void* bias = nullptr);
};

/// The cuBLASLt handle of one device, made when first used, and the algorithms that were chosen with it. Thread-safe.
class CublasHandles {
 public:
  struct Choice {
    cublasLtMatmulAlgo_t algorithm;
    std::size_t workspace;  // bytes
  };

  explicit CublasHandles(Device device) : device_(device) {}
  ~CublasHandles();
  CublasHandles(const CublasHandles&) = delete;
  CublasHandles& operator=(const CublasHandles&) = delete;

  /// Both with the device current. Nothing is chosen for an epilogue that cuBLAS has no algorithm with; a product
  /// without an algorithm is an error.
  cublasLtHandle_t handle();
  std::optional<Choice> choose(const CublasProblem&, CublasDescriptors&);

 private:
  static constexpr std::size_t kMostRemembered = 4096;
  struct Hash {
    std::size_t operator()(const CublasProblem&) const noexcept;
  };

  std::optional<Choice> ask(const CublasProblem&, CublasDescriptors&);

  Device device_;
  std::mutex mutex_;  // guards what follows
  cublasLtHandle_t handle_ = nullptr;
  std::unordered_map<CublasProblem, std::optional<Choice>, Hash> choices_;
};

}  // namespace tutti
