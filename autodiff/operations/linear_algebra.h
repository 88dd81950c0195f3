// SPDX-License-Identifier: Apache-2.0
#pragma once

// Linear algebra of matrices [..., rows, columns], each of the leading axes by itself. All are differentiable any
// number of times, in f32 and f64; bf16 and f16 are computed in f32 and rounded once, integers give f32. Empty batches
// and matrices work. ShapeError for what does not fit; a matrix that has no such result throws LinearAlgebraError,
// which names it, when the kernel runs. NaN and infinities are such in cholesky, svd and eigh, and spread in all else.

#include <tutti/autodiff/tensor.h>
#include <tutti/backend/calls/kernel_arguments.h>

namespace tutti {

/// The lower triangular L with a positive diagonal and L L^T = x. Of a matrix that is not symmetric the mean with its
/// transpose is taken, so the gradient is symmetric. LinearAlgebraError unless it is positive definite.
Tensor cholesky(const Tensor& x);

/// X of A X = B: A [..., n, n], B [..., n, k] or a vector [n] -> B's shape, leading axes broadcast. Alone what has one
/// axis is a vector, as in NumPy. LinearAlgebraError where elimination meets a pivot that is 0.
Tensor solve(const Tensor& matrix, const Tensor& right);
/// The same for the lower triangle of A, or the upper, with ones on the diagonal where `unit`; the rest of A is not
/// read and has gradient 0. For X A = B transpose all three. LinearAlgebraError for a 0 on the diagonal.
Tensor solve_triangular(const Tensor& matrix, const Tensor& right, const Triangle& = {});
/// [..., n, n]: what x is multiplied with to give the identity. LinearAlgebraError for a singular one; to apply it to
/// something else, `solve` is faster and nearer.
Tensor inverse(const Tensor&);

/// [..., n, n] -> [...]; of no rows 1. The gradient is made of the inverse: LinearAlgebraError for a singular matrix's.
Tensor determinant(const Tensor&);
struct SignAndLog {
  Tensor sign;       ///< -1, 0 or 1; without a gradient
  Tensor logabsdet;  ///< log(abs(determinant)): -infinity for a singular matrix, whose gradient is an error
};
SignAndLog slogdet(const Tensor&);  ///< [..., n, n] -> twice [...]; determinants of large matrices overflow

struct Qr {
  Tensor q;  ///< [..., m, k] with orthonormal columns, k = min(m, n)
  Tensor r;  ///< [..., k, n], upper triangular
};
/// q r = x. The signs of r's diagonal are the backend's. The gradient needs the first k columns to be independent, else
/// LinearAlgebraError.
Qr qr(const Tensor&);

struct Svd {
  Tensor u;   ///< [..., m, k], k = min(m, n)
  Tensor s;   ///< [..., k], from the largest on
  Tensor vh;  ///< [..., k, n]
};
/// u diag(s) vh = x. The signs of the vectors are the backend's: what is computed from them must not depend on these,
/// or gradients mean nothing. That of u and vh is infinite or NaN where singular values are equal or, of matrices that
/// are not square, 0; that of s alone is right there.
Svd svd(const Tensor&);
/// s alone, faster; one that is recorded is `svd`'s, and may differ from one that is not in its last digits.
Tensor svdvals(const Tensor&);

struct Eigh {
  Tensor values;   ///< [..., n], from the smallest on
  Tensor vectors;  ///< [..., n, n], as columns
};
/// vectors diag(values) vectors^T = x, of symmetric matrices; of others the mean with the transpose is taken. Signs and
/// gradients are as svd's.
Eigh eigh(const Tensor&);
Tensor eigvalsh(const Tensor&);  ///< the values alone, as svdvals

}  // namespace tutti
