// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/dropout.h>

#include <tutti/backend/error.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/sequential.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

using namespace tutti;

namespace {

std::vector<float> mask(const Dropout& layer, std::size_t device = 0, std::int64_t count = 200) {
  const Tensor x(Array::full({count}, 1, DType::f32, test_device(device)));
  return layer.forward(x).to_vector<float>();
}

}  // namespace

TEST_CASE("Dropout works while training only") {
  Generator random(1);
  Sequential model(Linear(4, 4, random, {.device = test_device()}), Dropout(0.5, random));
  CHECK(model.named_parameters().size() == 2);
  const Tensor x(Array::full({8, 4}, 1, DType::f32, test_device()));
  const auto first = model.forward(x).to_vector<float>();
  CHECK(model.forward(x).to_vector<float>() != first);
  model.eval();
  const auto whole = model.forward(x).to_vector<float>();
  CHECK(model.forward(x).to_vector<float>() == whole);
}

TEST_CASE("Dropout draws the same masks in every run, and each layer its own") {
  Generator random(2);
  const Dropout layer(0.5, random);
  const Dropout next(0.5, random);
  Generator again(2);
  const Dropout same(0.5, again);
  const auto first = mask(layer);
  const auto second = mask(layer);
  CHECK(first != second);
  CHECK(mask(same) == first);
  CHECK(mask(same) == second);
  CHECK(mask(next) != first);
}

TEST_CASE("Dropout: clones on other devices draw masks of their own, reproducibly") {
  Generator random(3);
  const Dropout layer(0.5, random);
  const Dropout other = clone(layer, test_device(1));
  const Dropout copy = clone(layer, test_device());
  const auto on_first = mask(layer);
  const auto on_second = mask(other, 1);
  CHECK(on_first != on_second);
  CHECK(mask(layer, 1) == on_second);  // the device decides, not the object
  CHECK(mask(copy) == on_first);
  CHECK(mask(layer) == mask(copy));
  CHECK(mask(layer, 1) == mask(other, 1));
}

TEST_CASE("Dropout: a device that is given a number draws the masks of the device of that index, also after a copy") {
  Generator random(3);
  const Dropout layer(0.5, random);
  Dropout numbered = layer;
  numbered.set_number(test_device(), 1);
  CHECK(numbered.number_of(test_device()) == 1);
  CHECK(numbered.number_of(test_device(1)) == 1);
  CHECK(layer.number_of(test_device()) == 0);
  const auto expected = mask(layer, 1);
  CHECK(mask(numbered) == expected);
  const Dropout copy = numbered;
  CHECK(mask(copy) == mask(layer, 1));
}

TEST_CASE("Dropout refuses what is no probability") {
  Generator random(1);
  CHECK_THROWS_WITH_AS(Dropout(1.25, random), "[Dropout] p is 1.25: it must be in [0, 1]", Error);
}
