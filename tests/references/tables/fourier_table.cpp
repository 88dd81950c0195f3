// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/references/operations.h>

#include <tutti/autodiff/operations.h>

namespace tutti::testing {
namespace {

FourierNorm norm(const Call& c) { return static_cast<FourierNorm>(c.attributes.integer("norm", 0)); }

FourierAxis along(const Call& c) {
  FourierAxis axis{{}, c.attributes.integer("axis", -1), norm(c)};
  if (c.attributes.has("length")) axis.length = c.attributes.integer("length");
  return axis;
}

FourierAxes all_along(const Call& c) {
  const Axes lengths = c.attributes.integers("lengths");
  return {{lengths.begin(), lengths.end()}, c.attributes.integers("axes"), norm(c)};
}

ComplexTensor pair(const Call& c) { return {c.x[0], c.input(1)}; }
std::vector<Tensor> parts(const ComplexTensor& x) { return {x.real, x.imaginary}; }

}  // namespace

std::vector<Operation> fourier_operations() {
  return {
      TUTTI_REFERENCE(fft, parts(fft(pair(c), along(c)))),
      TUTTI_REFERENCE(ifft, parts(ifft(pair(c), along(c)))),
      TUTTI_REFERENCE(rfft, parts(rfft(c.x[0], along(c)))),
      TUTTI_REFERENCE(irfft, irfft(pair(c), along(c))),
      TUTTI_REFERENCE(fftn, parts(fftn(pair(c), all_along(c)))),
      TUTTI_REFERENCE(ifftn, parts(ifftn(pair(c), all_along(c)))),
      TUTTI_REFERENCE(rfftn, parts(rfftn(c.x[0], all_along(c)))),
      TUTTI_REFERENCE(irfftn, irfftn(pair(c), all_along(c))),
  };
}

}  // namespace tutti::testing
