// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu/linear_algebra/gemm.h>

#include <tutti/backend/raise.h>

#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 takes the deliberately undefined operands of its own AVX-512 intrinsics for mistakes.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <Eigen/Core>

#include <type_traits>

#ifdef TUTTI_HAVE_ONEDNN
#include <dnnl.h>
#include <omp.h>
#endif

namespace tutti {
namespace {

template <class T, int order> using Operand =
    Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, order>, 0, Eigen::OuterStride<>>;
template <class T> using Result =
    Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>, 0, Eigen::OuterStride<>>;

template <class T, int a_order, int b_order> void eigen_gemm(std::int64_t m, std::int64_t n, std::int64_t k,
                                                             const MatrixView<T>& a, const MatrixView<T>& b, T* c,
                                                             std::int64_t c_leading, bool accumulate) {
  const Operand<T, a_order> lhs(a.data, m, k, Eigen::OuterStride<>(a.leading));
  const Operand<T, b_order> rhs(b.data, k, n, Eigen::OuterStride<>(b.leading));
  Result<T> result(c, m, n, Eigen::OuterStride<>(c_leading));
  if (accumulate)
    result.noalias() += lhs * rhs;
  else
    result.noalias() = lhs * rhs;
}

template <class T> void eigen_gemm(std::int64_t m, std::int64_t n, std::int64_t k, const MatrixView<T>& a,
                                   const MatrixView<T>& b, T* c, std::int64_t c_leading, bool accumulate) {
  constexpr int kRow = Eigen::RowMajor;
  constexpr int kColumn = Eigen::ColMajor;
  if (a.transposed && b.transposed) return eigen_gemm<T, kColumn, kColumn>(m, n, k, a, b, c, c_leading, accumulate);
  if (a.transposed) return eigen_gemm<T, kColumn, kRow>(m, n, k, a, b, c, c_leading, accumulate);
  if (b.transposed) return eigen_gemm<T, kRow, kColumn>(m, n, k, a, b, c, c_leading, accumulate);
  eigen_gemm<T, kRow, kRow>(m, n, k, a, b, c, c_leading, accumulate);
}

#ifdef TUTTI_HAVE_ONEDNN

// Up to here Eigen is faster: oneDNN needs some 250 ns to get ready (measured with AVX2 and AVX-512).
constexpr std::int64_t kTiny = 20000;

/// The device's own threads divide the work: OpenMP, which oneDNN runs on, gets one. Its setting is the calling
/// thread's own.
class OneOpenMpThread {
 public:
  OneOpenMpThread() : before_(omp_get_max_threads()) {
    if (before_ != 1) omp_set_num_threads(1);
  }
  ~OneOpenMpThread() {
    if (before_ != 1) omp_set_num_threads(before_);
  }
  OneOpenMpThread(const OneOpenMpThread&) = delete;
  OneOpenMpThread& operator=(const OneOpenMpThread&) = delete;

 private:
  int before_;
};

void onednn_gemm(std::int64_t m, std::int64_t n, std::int64_t k, const MatrixView<float>& a, const MatrixView<float>& b,
                 float* c, std::int64_t c_leading, bool accumulate) {
  const OneOpenMpThread one_thread;
  const dnnl_status_t status = dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', m, n, k, 1.0F, a.data,
                                          a.leading, b.data, b.leading, accumulate ? 1.0F : 0.0F, c, c_leading);
  if (status != dnnl_success)
    raise("[matmul] oneDNN failed with status {} for [{}, {}] x [{}, {}]", static_cast<int>(status), m, k, k, n);
}

#endif

}  // namespace

template <class T> void gemm(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<T> a, MatrixView<T> b, T* c,
                             std::int64_t c_leading, bool accumulate) {
#ifdef TUTTI_HAVE_ONEDNN
  if constexpr (std::is_same_v<T, float>)
    if (m * n * k > kTiny) return onednn_gemm(m, n, k, a, b, c, c_leading, accumulate);
#endif
  eigen_gemm(m, n, k, a, b, c, c_leading, accumulate);
}

template void gemm(std::int64_t, std::int64_t, std::int64_t, MatrixView<float>, MatrixView<float>, float*, std::int64_t,
                   bool);
template void gemm(std::int64_t, std::int64_t, std::int64_t, MatrixView<double>, MatrixView<double>, double*,
                   std::int64_t, bool);

}  // namespace tutti
