// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <tutti/backend/error.h>
#include <tutti/optim/sgd.h>
#include <tutti/optim/weight_average.h>
#include <tutti/tests/optim/gradients.h>
#include <tutti/tests/test_devices.h>

#include <cmath>

using namespace tutti;
using namespace tutti::testing;

TEST_CASE("average: follows the parameters, with or without warm-up") {
  for (const bool warm_up : {false, true}) {
    const Tensor p = make_parameter<double>({1, -2, 3});
    const Tensor none = make_parameter<float>({});
    Sgd optimizer({p}, 0.1);
    WeightAverage average({p, none}, {.decay = 0.3, .warm_up = warm_up});
    auto expected = p.to_vector<double>();
    for (int t = 1; t <= 6; ++t) {
      set_gradient<double>(p, {std::sin(t), 1.0 * t, -1});
      optimizer.step();
      average.update();
      const double decay = warm_up ? std::min(0.3, (1.0 + t) / (10.0 + t)) : 0.3;
      CHECK(average.decay_of(t) == decay);
      const auto values = p.to_vector<double>();
      for (std::size_t i = 0; i < values.size(); ++i) expected[i] = decay * expected[i] + (1 - decay) * values[i];
    }
    const auto found = average.averages()[0].to_vector<double>();
    for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i] == doctest::Approx(expected[i]).epsilon(1e-14));
    CHECK(average.updates() == 6);
  }
}

TEST_CASE("average: a scope shows it in the parameters, and gives them back") {
  const Tensor p = make_parameter<float>({1});
  WeightAverage average({p}, {.decay = 0.5});
  Tensor(p).set_array(Array::full({1}, 3, DType::f32, test_device()));
  average.update();
  const void* const storage = p.array().raw_data();
  {
    const auto applied = average.apply();
    CHECK(p.to_vector<float>()[0] == 2.0F);
    CHECK_THROWS_WITH_AS(average.update(), doctest::Contains("scope"), Error);
    CHECK_THROWS_WITH_AS(static_cast<void>(average.apply()), doctest::Contains("already"), Error);
    CHECK_THROWS_AS(average.load_state(average.state()), Error);
  }
  CHECK(p.to_vector<float>()[0] == 3.0F);
  CHECK(p.array().raw_data() == storage);
  CHECK_THROWS_AS(
      [&] {
        const auto applied = average.apply();
        throw std::runtime_error("evaluation burnt");
      }(),
      std::runtime_error);
  CHECK(p.to_vector<float>()[0] == 3.0F);
  average.update();
  CHECK(average.averages()[0].to_vector<float>()[0] == 2.5F);
}

TEST_CASE("average: goes on from its state bit by bit, on another device too") {
  const Tensor p = make_parameter<float>({1, 2});
  WeightAverage average({p}, {.decay = 0.9, .warm_up = true});
  const auto move = [](Tensor parameter, float by) {
    auto values = parameter.to_vector<float>();
    for (float& value : values) value = value * 1.1F + by;
    parameter.set_array(Array::from(values, {2}, parameter.device()));
  };
  move(p, 0.3F);
  average.update();
  const Tensor q = make_parameter<float>(p.to_vector<float>(), test_device(1));
  WeightAverage restarted({q}, {.decay = 0.9, .warm_up = true});
  restarted.load_state(average.state());
  for (int i = 0; i < 3; ++i) {
    move(p, 0.7F);
    move(q, 0.7F);
    average.update();
    restarted.update();
  }
  CHECK(restarted.averages()[0].to_vector<float>() == average.averages()[0].to_vector<float>());

  WeightAverage::State state = average.state();
  state.averages[0].fill(0);
  CHECK(average.averages()[0].to_vector<float>()[0] != 0.0F);
  const auto refused = [&](auto&& change) {
    WeightAverage::State bad = average.state();
    change(bad);
    CHECK_THROWS_AS(average.load_state(bad), Error);
    CHECK(average.updates() == 4);
  };
  refused([](auto& s) { s.updates = -1; });
  refused([](auto& s) { s.averages.clear(); });
  refused([](auto& s) { s.averages[0] = Array(); });
  refused([](auto& s) { s.averages[0] = Array::zeros({3}, DType::f32, test_device()); });
  refused([](auto& s) { s.averages[0] = Array::zeros({2}, DType::f64, test_device()); });
}

TEST_CASE("average: what cannot be is refused") {
  const Tensor p = make_parameter<float>({1});
  CHECK_THROWS_WITH_AS(WeightAverage({p}, {.decay = 1}), doctest::Contains("decay must be in [0, 1)"), Error);
  CHECK_THROWS_AS(WeightAverage({}), Error);
  CHECK_THROWS_AS(WeightAverage({Tensor()}), Error);
  CHECK_THROWS_AS(WeightAverage({Tensor(Array::zeros({2}, DType::i64, test_device()))}), DTypeError);
}

TEST_CASE("average: of bf16 in f32, rounded where it is applied") {
  Tensor p(Array::full({5}, 1.0, DType::bf16, test_device()), true);
  WeightAverage average({p}, {.decay = 0.75});
  p.set_array(Array::full({5}, 1.0078125, DType::bf16, test_device()));  // the next bf16 after 1
  average.update();
  CHECK(average.averages()[0].dtype() == DType::f32);
  CHECK(average.averages()[0].to_vector<float>() == std::vector<float>(5, 1.001953125F));
  {
    const auto applied = average.apply();
    CHECK(p.dtype() == DType::bf16);
    CHECK(static_cast<float>(p.to_vector<BFloat16>()[0]) == 1.0F);
  }
  CHECK(static_cast<float>(p.to_vector<BFloat16>()[4]) == 1.0078125F);
  WeightAverage other({p}, {.decay = 0.75});
  other.load_state(average.state());
  CHECK(other.averages()[0].to_vector<float>() == average.averages()[0].to_vector<float>());
}
