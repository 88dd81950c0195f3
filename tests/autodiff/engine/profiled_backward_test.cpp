// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/profile.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

using namespace tutti;

namespace {

Tensor parameter(const Shape& shape) {
  Tensor made(Array::full(shape, 2, DType::f32, test_device()));
  made.set_requires_grad(true);
  return made;
}

/// "matmul in matmul, backward", for each kernel.
std::vector<std::string> told(const Profile& profile) {
  std::vector<std::string> texts;
  for (const ProfiledKernel& each : profile.runs().at(0).kernels)
    texts.push_back(each.name + " in " + each.operation + (each.backward ? ", backward" : ""));
  return texts;
}

}  // namespace

TEST_CASE("profile: kernels are told the operation that they are part of, forward and backward") {
  const Tensor x = parameter({2, 3});
  const Tensor weight = parameter({3, 4});
  Profile profile;
  {
    const ProfiledScope on(profile);
    backward(sum(exp(matmul(x, weight))));
  }
  const auto texts = told(profile);
  const std::vector<std::string> forward(texts.begin(), texts.begin() + 3);
  CHECK(forward == std::vector<std::string>{"matmul in matmul", "elementwise exp in exp", "reduce sum in sum"});
  const auto has = [&](const char* text) { return std::ranges::find(texts, text) != texts.end(); };
  CHECK(has("elementwise exp gradient in exp, backward"));
  CHECK(std::ranges::count(texts, "matmul in matmul, backward") == 2);
  double flops = 0.0;
  for (const ProfiledKernel& each : profile.runs()[0].kernels) flops += each.flops;
  CHECK(flops == 3 * 2.0 * 2 * 3 * 4);
  CHECK(x.grad().size() == 6);
}

TEST_CASE(
    "profile: an operation that is composed of others is named by its own name, and steps outside of any by none") {
  const Tensor x = parameter({2, 3});
  Profile profile;
  {
    const ProfiledScope on(profile);
    (void)var(x);
    (void)x.array().copy();
  }
  const auto texts = told(profile);
  for (std::size_t i = 0; i + 1 < texts.size(); ++i) CHECK(texts[i].ends_with(" in var"));
  CHECK(texts.back() == "copy in ");
}
