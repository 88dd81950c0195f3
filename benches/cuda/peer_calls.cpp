// SPDX-License-Identifier: Apache-2.0
#include <tutti/benches/cuda/peer_calls.h>

#include <tutti/backend/cuda/runtime/cuda_check.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>

#include <cublas_v2.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

namespace tutti::bench {
namespace {

void check_cublas(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS) raise("[bench] {} failed: {}", call, cublasGetStatusString(status));
}

/// A stream of the peer's own, whose work ends before `synchronize` of Tutti's stream is called.
class PeerStream {
 public:
  explicit PeerStream(Device device) : device_(device) {
    synchronize(device);
    TUTTI_CUDA(device, "bench", cudaStreamCreate(&stream_));
  }
  ~PeerStream() { (void)cudaStreamDestroy(stream_); }
  PeerStream(const PeerStream&) = delete;
  PeerStream& operator=(const PeerStream&) = delete;

  cudaStream_t handle() const { return stream_; }
  void finish() const { TUTTI_CUDA(device_, "bench", cudaStreamSynchronize(stream_)); }

 private:
  Device device_;
  cudaStream_t stream_ = nullptr;
};

class Cublas {
 public:
  explicit Cublas(Device device) : stream(device) {
    check_cublas(cublasCreate(&handle), "cublasCreate");
    check_cublas(cublasSetStream(handle, stream.handle()), "cublasSetStream");
  }
  ~Cublas() { (void)cublasDestroy(handle); }
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  PeerStream stream;
  cublasHandle_t handle = nullptr;
};

std::optional<cudaDataType_t> cuda_type(std::string_view dtype) {
  if (dtype == "f32") return CUDA_R_32F;
  if (dtype == "bf16") return CUDA_R_16BF;
  if (dtype == "f16") return CUDA_R_16F;
  return std::nullopt;
}

constexpr int kTogether = 20;

}  // namespace

PeerCall make_copy(const Array& from, const Array& to) {
  if (from.device().kind != DeviceKind::cuda)
    return {[=] { std::memcpy(to.raw_data(), from.raw_data(), from.bytes()); }};
  const auto stream = std::make_shared<PeerStream>(from.device());
  return {[=] {
            for (int i = 0; i < kTogether; ++i)
              TUTTI_CUDA(from.device(), "bench",
                         cudaMemcpyAsync(to.raw_data(), from.raw_data(), from.bytes(), cudaMemcpyDeviceToDevice,
                                         stream->handle()));
            stream->finish();
          },
          kTogether};
}

PeerCall make_product(const Array& lhs, const Array& rhs, const Array& output, bool tf32) {
  const auto type = cuda_type(to_string(lhs.dtype()));
  if (lhs.device().kind != DeviceKind::cuda || !type) return {};
  const auto cublas = std::make_shared<Cublas>(lhs.device());
  const cublasComputeType_t compute = tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  return {[=, type = *type] {
            const auto n = static_cast<int>(lhs.length(0));
            const float one = 1;
            const float zero = 0;
            for (int i = 0; i < kTogether; ++i)  // by columns, so the operands change places
              check_cublas(cublasGemmEx(cublas->handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, rhs.raw_data(), type,
                                        n, lhs.raw_data(), type, n, &zero, output.raw_data(), type, n, compute,
                                        CUBLAS_GEMM_DEFAULT),
                           "cublasGemmEx");
            cublas->stream.finish();
          },
          kTogether};
}

}  // namespace tutti::bench
