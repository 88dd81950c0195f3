// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/references/operations.h>

#include <tutti/autodiff/operations.h>

#include <array>

namespace tutti::testing {
namespace {

std::array<std::int64_t, 2> pair(const Call& c, std::string_view name) {
  const Axes numbers = c.attributes.integers(name);
  return {numbers[0], numbers[1]};
}
std::int64_t one(const Call& c, std::string_view name) { return c.attributes.integer(name); }

Conv2dGeometry conv2d_geometry(const Call& c) {
  return {pair(c, "stride"), pair(c, "padding"), pair(c, "dilation"), one(c, "groups")};
}
Conv1dGeometry conv1d_geometry(const Call& c) {
  return {one(c, "stride"), one(c, "padding"), one(c, "dilation"), one(c, "groups")};
}
AvgPool2dGeometry mean2d_geometry(const Call& c) {
  return {pair(c, "kernel"), pair(c, "stride"), pair(c, "padding"), c.attributes.flag("count_include_pad")};
}
Pool1dGeometry pool1d_geometry(const Call& c) { return {one(c, "kernel"), one(c, "stride"), one(c, "padding")}; }
AvgPool1dGeometry mean1d_geometry(const Call& c) {
  return {one(c, "kernel"), one(c, "stride"), one(c, "padding"), c.attributes.flag("count_include_pad")};
}

}  // namespace

std::vector<Operation> image_operations() {
  return {
      TUTTI_REFERENCE_OF(grouped_conv2d, conv2d, conv2d(c.x[0], c.x[1], c.input(2), conv2d_geometry(c))),
      TUTTI_REFERENCE_OF(conv1d, conv1d, conv1d(c.x[0], c.x[1], c.input(2), conv1d_geometry(c))),
      TUTTI_REFERENCE_OF(avg_pool2d, avg_pool2d, avg_pool2d(c.x[0], mean2d_geometry(c))),
      TUTTI_REFERENCE_OF(max_pool1d, max_pool1d, max_pool1d(c.x[0], pool1d_geometry(c))),
      TUTTI_REFERENCE_OF(avg_pool1d, avg_pool1d, avg_pool1d(c.x[0], mean1d_geometry(c))),
  };
}

}  // namespace tutti::testing
