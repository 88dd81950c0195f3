// SPDX-License-Identifier: Apache-2.0
// What cuSOLVER and cuBLAS are asked, and the way of a matrix's defect from the kernel that finds it to the host. That
// every call may fail is tested in cuda_operations_test.cpp, the kernels in matrices_kernels_test.cpp.
#include <tutti/backend/cuda/kernels/matrices.h>
#include <tutti/backend/error.h>
#include <tutti/backend/linear_algebra/linear_algebra.h>
#include <tutti/tests/backend/cuda/recording/recording_cuda.h>
#include <tutti/tests/backend/cuda/renewed_backend.h>

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace tutti::testing {
namespace {

using cuda_kernels::MatrixFault;
using Kind = MatrixDefect::Kind;
using Texts = std::vector<std::string>;

constexpr Device kDevice = cuda(1);

/// What was asked of these functions: their sizes.
Texts asked(const RecordingCuda& machine, std::string_view name) {
  Texts texts;
  for (const RecordedCall& call : machine.calls())
    if (call.name == name) texts.push_back(call.text);
  return texts;
}

TEST_CASE("cuda linear algebra: each library function gets the matrices as they lie, one by one or together") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const RecordingCuda machine({.deferred = true});
    const RenewedBackend backend;
    const auto matrices = [&](const Shape& shape) { return Array::empty(shape, dtype, kDevice); };
    factorize(Factorization::cholesky, matrices({4, 4}));
    factorize(Factorization::cholesky, matrices({2, 3, 4, 4}));
    factorize(Factorization::cholesky, matrices({2, 600, 600}));
    CHECK(asked(machine, "potrf") == Texts{"upper 4", "upper 600", "upper 600"});
    CHECK(asked(machine, "potrfBatched") == Texts{"upper 4, 6 times"});
    lu(matrices({1, 5, 5}));
    lu(matrices({3, 5, 5}));
    CHECK(asked(machine, "getrf") == Texts{"5 x 5"});
    CHECK(asked(machine, "getrfBatched") == Texts{"5, 3 times"});
    factorize(Factorization::qr, matrices({2, 7, 3}));
    CHECK(asked(machine, "geqrf") == Texts{"7 x 3", "7 x 3"});
    CHECK(asked(machine, "orgqr") == Texts{"7 x 3, 3", "7 x 3, 3"});
    factorize(Factorization::svd, matrices({2, 7, 3}));
    factorize(Factorization::svd, matrices({3, 7}));
    factorize(Factorization::singular_values, matrices({3, 7}));
    CHECK(asked(machine, "gesvd") == Texts{"S 7 x 3", "S 7 x 3", "S 7 x 3", "N 7 x 3"});
    factorize(Factorization::eigh, matrices({2, 4, 4}));
    factorize(Factorization::eigenvalues, matrices({4, 4}));
    CHECK(asked(machine, "syevd") == Texts{"vectors upper 4", "vectors upper 4", "values upper 4"});
    solve_triangular({.upper = true}, matrices({4, 4}), matrices({4, 2}));
    solve_triangular({.unit = true}, matrices({4, 4}), matrices({4, 2}));
    solve_triangular({}, matrices({3, 4, 4}), matrices({3, 4, 1}));
    CHECK(asked(machine, "trsm") == Texts{"right lower, 2 x 4", "right upper unit, 2 x 4"});
    CHECK(asked(machine, "trsmBatched") == Texts{"right upper, 1 x 4"});
    CHECK(machine.count("cusolverDnCreate") == 1);
    CHECK(backend->pool(kDevice).statistics().in_use == 0);
    CHECK_NOTHROW(synchronize(kDevice));
  }
}

TEST_CASE("cuda linear algebra: what is beyond the 32 bits of cuSOLVER and cuBLAS is refused") {
  const RecordingCuda machine({.deferred = true, .workspace_fits = false});
  const RenewedBackend backend;
  const Array one = Array::zeros({1, 1}, DType::f32, kDevice);
  CHECK_THROWS_WITH_AS(factorize(Factorization::eigh, one),
                       doctest::Contains("[eigh] matrices of 1 x 1 are more than CUDA devices take apart"), ShapeError);
  const auto refused = [&](Factorization kind, const Shape& shape, const char* text) {  // views: nobody has such memory
    const Array matrices = one.broadcast_to(shape);
    CHECK_THROWS_WITH_AS(backend_for(kDevice).factorize(kind, matrices, matrices), doctest::Contains(text), ShapeError);
  };
  refused(Factorization::qr, {46341, 46341}, "[qr] [46341, 46341] is more than CUDA devices take apart");
  refused(Factorization::svd, {std::int64_t{1} << 31, 1, 1}, "[svd] [2147483648, 1, 1] is more");
  const Array many = one.broadcast_to({std::int64_t{1} << 31, 1, 1});
  CHECK_THROWS_WITH_AS(backend_for(kDevice).lu(many, many, many, many), doctest::Contains("[lu] [2147483648, 1, 1]"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(backend_for(kDevice).solve_triangular({}, many, many, many), doctest::Contains("[2147483648"),
                       ShapeError);
  CHECK_NOTHROW(synchronize(kDevice));
}

TEST_CASE("cuda linear algebra: handles are given back while their device is current") {
  const RecordingCuda machine({.deferred = true});  // reports it if they are not
  const RenewedBackend backend;
  factorize(Factorization::eigh, Array::zeros({2, 2}, DType::f32, kDevice));
  synchronize(kDevice);
  cudaSetDevice(0);
}

/// The next kernel of that name reports this, whatever it is given; its last argument is where.
void report_from(RecordingCuda& machine, std::string_view kernel, std::size_t fault_argument, Kind kind,
                 std::int64_t matrix, std::int64_t pivot) {
  machine.on_kernel(kernel, [=](const KernelLaunch& launch) {
    auto* const fault = *static_cast<MatrixFault* const*>(launch.arguments[fault_argument]);
    return [=] { fault->tell(kind, matrix, pivot); };
  });
}

TEST_CASE("cuda linear algebra: a defect is an error of the next wait, with operation, device and matrix, once") {
  RecordingCuda machine;
  const RenewedBackend backend;
  const auto matrices = [](const Shape& shape) { return Array::empty(shape, DType::f32, kDevice); };
  report_from(machine, "report_diagonal", 3, Kind::singular, 2, 1);
  const Array solved = solve_triangular({}, matrices({5, 3, 3}), matrices({5, 3, 1}));
  CHECK_THROWS_WITH_AS(synchronize(kDevice),
                       "[solve_triangular] cuda:1: matrix 2 of the batch is singular: pivot 1 is 0",
                       LinearAlgebraError);
  CHECK_NOTHROW(synchronize(kDevice));
  CHECK_NOTHROW(synchronize(cuda(0)));

  report_from(machine, "report_not_finite", 2, Kind::not_finite, 0, 0);
  const Array values = factorize(Factorization::eigenvalues, matrices({5, 3, 3}));
  CHECK_THROWS_WITH_AS(synchronize(kDevice),
                       doctest::Contains("[eigvalsh] cuda:1: matrix 0 of the batch has elements that are not finite"),
                       LinearAlgebraError);
  report_from(machine, "report_status", 3, Kind::not_positive_definite, 3, 0);
  report_from(machine, "report_diagonal", 3, Kind::not_positive_definite, 3, 0);
  const Array factor = factorize(Factorization::cholesky, matrices({5, 3, 3}));
  CHECK_THROWS_WITH_AS(factor.to_vector<float>(), "[cholesky] cuda:1: matrix 3 of the batch is not positive definite",
                       LinearAlgebraError);
}

}  // namespace
}  // namespace tutti::testing
