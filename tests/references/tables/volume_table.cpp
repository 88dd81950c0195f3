// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/references/operations.h>

#include <tutti/autodiff/operations.h>

#include <array>

namespace tutti::testing {
namespace {

template <std::size_t N> std::array<std::int64_t, N> numbers(const Call& c, std::string_view name) {
  const Axes given = c.attributes.integers(name);
  std::array<std::int64_t, N> found{};
  for (std::size_t i = 0; i < N; ++i) found[i] = given[i];
  return found;
}
std::int64_t one(const Call& c, std::string_view name) { return c.attributes.integer(name); }

ConvTranspose1dGeometry transposed1d(const Call& c) {
  return {one(c, "stride"), one(c, "padding"), one(c, "output_padding"), one(c, "dilation"), one(c, "groups")};
}
template <class Geometry, std::size_t N> Geometry transposed(const Call& c) {
  return {numbers<N>(c, "stride"), numbers<N>(c, "padding"), numbers<N>(c, "output_padding"), numbers<N>(c, "dilation"),
          one(c, "groups")};
}
Conv3dGeometry conv3d_geometry(const Call& c) {
  return {numbers<3>(c, "stride"), numbers<3>(c, "padding"), numbers<3>(c, "dilation"), one(c, "groups")};
}
Pool3dGeometry windows3d(const Call& c) {
  return {numbers<3>(c, "kernel"), numbers<3>(c, "stride"), numbers<3>(c, "padding")};
}
AvgPool3dGeometry means3d(const Call& c) {
  const auto [kernel, stride, padding] = windows3d(c);
  return {kernel, stride, padding, c.attributes.flag("count_include_pad")};
}

}  // namespace

std::vector<Operation> volume_operations() {
  using Transposed2d = ConvTranspose2dGeometry;
  using Transposed3d = ConvTranspose3dGeometry;
  return {
      TUTTI_REFERENCE(conv_transpose1d, conv_transpose1d(c.x[0], c.x[1], c.input(2), transposed1d(c))),
      TUTTI_REFERENCE(conv_transpose2d, conv_transpose2d(c.x[0], c.x[1], c.input(2), transposed<Transposed2d, 2>(c))),
      TUTTI_REFERENCE(conv_transpose3d, conv_transpose3d(c.x[0], c.x[1], c.input(2), transposed<Transposed3d, 3>(c))),
      TUTTI_REFERENCE(conv3d, conv3d(c.x[0], c.x[1], c.input(2), conv3d_geometry(c))),
      TUTTI_REFERENCE(max_pool3d, max_pool3d(c.x[0], windows3d(c))),
      TUTTI_REFERENCE(avg_pool3d, avg_pool3d(c.x[0], means3d(c))),
  };
}

}  // namespace tutti::testing
