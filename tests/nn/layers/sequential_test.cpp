// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <tutti/nn/activation.h>
#include <tutti/nn/conv2d.h>
#include <tutti/nn/flatten.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/pooling.h>
#include <tutti/nn/sequential.h>
#include <tutti/tests/test_devices.h>

using namespace tutti;

namespace {

Sequential make_network(std::uint64_t seed) {
  Generator random(seed);
  return Sequential(Conv2d(1, 4, 3, random, {.padding = 1, .device = test_device()}), ReLU(), MaxPool2d(2), Flatten(),
                    Linear(4 * 4 * 4, 10, random, {.device = test_device()}));
}

Tensor images(Device device = test_device()) { return Tensor(Generator(3).uniform({2, 1, 8, 8}, DType::f32, device)); }

}  // namespace

TEST_CASE("Sequential: chains its layers and names members by place") {
  Sequential network = make_network(1);
  CHECK(network.size() == 5);
  CHECK(network.forward(images()).shape() == Shape{2, 10});
  std::vector<std::string> names;
  for (const auto& [name, tensor] : network.named_parameters()) names.push_back(name);
  CHECK(names == std::vector<std::string>{"0.weight", "0.bias", "4.weight", "4.bias"});
}

TEST_CASE("Sequential: without layers it passes its input through") {
  const Sequential empty;
  const Tensor x = images();
  CHECK(empty.forward(x).is_same(x));
}

TEST_CASE("Sequential: nests, and appends") {
  Generator random(1);
  Sequential outer(Linear(2, 3, random), Sequential(Linear(3, 3, random), ReLU()));
  outer.append(Linear(3, 1, random));
  std::vector<std::string> names;
  for (const auto& [name, tensor] : outer.named_parameters()) names.push_back(name);
  CHECK(names == std::vector<std::string>{"0.weight", "0.bias", "1.0.weight", "1.0.bias", "2.weight", "2.bias"});
  CHECK_THROWS_WITH_AS(outer.layer(3), "[Sequential] there is no layer 3 of 3", ShapeError);
  outer.eval();
  CHECK_FALSE(outer.layer(1).training());
}

TEST_CASE("Sequential: a copy owns its layers and shares their tensors") {
  Sequential network = make_network(1);
  Sequential copy = network;
  CHECK(&copy.layer(0) != &network.layer(0));
  CHECK(copy.parameters()[0].is_same(network.parameters()[0]));
  copy.append(ReLU());
  CHECK(network.size() == 5);
  const Sequential& same = copy;
  copy = same;
  CHECK(copy.size() == 6);
}

TEST_CASE("Sequential: a clone is independent and computes the same") {
  Sequential network = make_network(1);
  Sequential other = clone(network, test_device(1));
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK_FALSE(other.parameters()[i].is_same(network.parameters()[i]));
    CHECK(other.parameters()[i].device() == test_device(1));
    CHECK(network.parameters()[i].device() == test_device());
  }
  const std::vector<float> here = network.forward(images()).to_vector<float>();
  CHECK(other.forward(images(test_device(1))).to_vector<float>() == here);
  Array weight = other.parameters()[0].array();
  weight.fill(0.0);
  CHECK(network.forward(images()).to_vector<float>() == here);
  CHECK(other.forward(images(test_device(1))).to_vector<float>() != here);
}
