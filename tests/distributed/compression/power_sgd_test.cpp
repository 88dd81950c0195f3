// SPDX-License-Identifier: Apache-2.0
// PowerSGD: what it sends, what it keeps, and that nothing is lost.
#include <tutti/backend/operations.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/loss.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/distributed/compression/compressing_group.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

/// Sum over devices of weight x gradient / total weight, of those that require it.
void add_mean(std::vector<double>& total, int step, const std::function<Part(int, std::size_t)>& part) {
  double weights = 0;
  for (std::size_t d = 0; d < kGroupDevices; ++d) weights += part(step, d).weight;
  for (std::size_t d = 0; d < kGroupDevices; ++d) {
    if (!part(step, d).wide) continue;
    const Floats gradient = wide_gradient(step, d);
    for (std::size_t i = 0; i < total.size(); ++i) total[i] += part(step, d).weight * double{gradient[i]} / weights;
  }
}

void add(std::vector<double>& total, const Floats& values, double factor = 1.0) {
  for (std::size_t i = 0; i < total.size(); ++i) total[i] += factor * double{values[i]};
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::fabs(a[i] - b[i]));
  return largest;
}

}  // namespace

TEST_CASE("power_sgd: full rank reproduces the plain mean") {
  CompressingGroup group({.rank = 100, .minimum_rate = 0});
  group.run(3, everything, [&](int step, std::size_t d) {
    std::vector<double> mean(12 * 20);
    add_mean(mean, step, everything);
    std::vector<double> got(mean.size());
    add(got, floats_of(group.replicas[d].wide.grad()));
    CHECK(distance(got, mean) < 1e-5);
  });
  std::vector<double> kept(12 * 20);  // what each device keeps is how it differs from the mean
  for (std::size_t d = 0; d < kGroupDevices; ++d) add(kept, group.kept("wide", d));
  CHECK(distance(kept, std::vector<double>(kept.size())) < 1e-4);
}

TEST_CASE("power_sgd: what was applied and the mean of what is kept are the sum of the true means") {
  const auto part = [](int step, std::size_t d) {
    const int turn = step % 4;
    return Part{.weight = turn == 1 && d == 0 ? 0.0 : 1.0 + static_cast<double>(d) * 16,
                .wide = !(turn == 2 && d == 1) && turn != 3};
  };
  for (const GradientWire wire : {GradientWire::native, GradientWire::bf16, GradientWire::f16})
    for (const std::int64_t rank : {1, 3}) {
      CompressingGroup group({.rank = rank, .minimum_rate = 1}, {.wire = wire});
      std::vector<double> applied(12 * 20);
      group.run(20, part, [&](int, std::size_t d) {
        if (d == 0 && group.replicas[0].wide.grad().defined()) add(applied, floats_of(group.replicas[0].wide.grad()));
      });
      std::vector<double> kept_alone(applied.size());
      for (std::size_t d = 0; d < kGroupDevices; ++d) add(kept_alone, group.kept("wide", d), 1.0 / kGroupDevices);
      std::vector<double> want(applied.size());
      for (int step = 0; step < 20; ++step) add_mean(want, step, part);
      CHECK(distance(applied, want) > 0.1);  // a low rank does lose something
      add(applied, [&] {
        Floats mean;
        for (const double value : kept_alone) mean.push_back(static_cast<float>(value));
        return mean;
      }());
      CHECK(distance(applied, want) < 1e-4);
    }
}

TEST_CASE("power_sgd: replicas are bitwise equal, whatever the order of arrival and the buckets") {
  std::vector<Floats> first;
  for (const std::size_t bucket : {std::size_t{0}, std::size_t{64} << 10})
    for (std::size_t late = 0; late < kGroupDevices; ++late) {
      CompressingGroup group({.rank = 2, .minimum_rate = 1}, {.bucket_bytes = bucket});
      std::vector<std::vector<Floats>> got(kGroupDevices);
      const auto part = [late](int step, std::size_t d) {
        if (d == late) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return Part{.weight = 1.0 + static_cast<double>(d), .wide = (static_cast<std::size_t>(step) + d) % 3 != 0};
      };
      group.run(5, part, [&](int, std::size_t d) {
        for (const Tensor& parameter : {group.replicas[d].wide, group.replicas[d].kernel, group.replicas[d].bias})
          got[d].push_back(floats_of(parameter.grad()));
      });
      if (first.empty()) first = got[0];
      for (const auto& results : got) CHECK(results == first);
    }
}

TEST_CASE("power_sgd: what would not shrink travels whole, as it does uncompressed") {
  CompressingGroup group({.rank = 1});  // [12, 20]: 32 of 240; [16, 2, 3, 3]: 34 of 288; [7]: no matrix
  CompressingGroup large({.rank = 6});  // 192 of 240, 204 of 288: less than half is saved
  CompressingGroup plain({.rank = 1, .start_after = 100});
  for (CompressingGroup* each : {&group, &large, &plain}) each->run(2, everything);
  for (std::size_t d = 0; d < kGroupDevices; ++d) {
    const auto same = [&](const CompressingGroup& other, Tensor Matrices::*parameter) {
      return floats_of((other.replicas[d].*parameter).grad()) == floats_of((plain.replicas[d].*parameter).grad());
    };
    CHECK(same(group, &Matrices::bias));
    CHECK_FALSE(same(group, &Matrices::wide));
    CHECK_FALSE(same(group, &Matrices::kernel));
    CHECK(same(large, &Matrices::wide));
    CHECK(same(large, &Matrices::kernel));
  }
  CHECK(group.power->traffic({0}).compressed == 32 * sizeof(float));
  CHECK(group.power->traffic({0}).plain == 240 * sizeof(float));
  CHECK(group.power->traffic({2}).compressed == 7 * sizeof(float));
  CHECK(group.power->state().size() == 1 + 2 * (1 + kGroupDevices));
  CHECK(large.power->state().size() == 1);
}

TEST_CASE("power_sgd: start_after counts committed steps") {
  CompressingGroup group({.rank = 1, .start_after = 2, .minimum_rate = 1});
  group.run(3, everything, [&](int step, std::size_t d) {
    std::vector<double> mean(12 * 20);
    add_mean(mean, step, everything);
    std::vector<double> got(mean.size());
    add(got, floats_of(group.replicas[d].wide.grad()));
    CHECK((distance(got, mean) < 1e-5) == (step < 2));
  });
}

TEST_CASE("power_sgd: zeros and NaN pass, and the next steps are as good as ever") {
  CompressingGroup group({.rank = 1, .minimum_rate = 1});
  const auto train = [&](const Floats& gradient) {
    run_devices(kGroupDevices, [&](std::size_t d) {
      group.replicas[d].zero_grad();
      auto step = group.sync.step(device(d));
      step.backward(with_gradient(group.replicas[d].wide, gradient));
    });
    return floats_of(group.replicas[1].wide.grad());
  };
  Floats rank_one(12 * 20);
  for (std::size_t i = 0; i < rank_one.size(); ++i)
    rank_one[i] = static_cast<float>(1 + i / 20) * (static_cast<float>(i % 20) - 7.5F);
  const auto close = [&](const Floats& got) {
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(rank_one[i]).epsilon(1e-3));
  };
  close(train(rank_one));
  for (const float value : train(Floats(12 * 20, 0.0F))) CHECK(std::fabs(value) < 1e-3F);
  close(train(rank_one));
  Floats bad = rank_one;
  bad[5] = std::nanf("");
  CHECK(std::isnan(train(bad)[5]));
  train(rank_one);  // makes up for what was lost
  close(train(rank_one));
}

TEST_CASE("power_sgd: small gradients survive factors of 16 bits") {
  CompressingGroup group({.rank = 1, .minimum_rate = 1}, {.wire = GradientWire::f16});
  Floats gradient(12 * 20);  // the factors of a matrix of this size squared would be zeros in f16
  for (std::size_t i = 0; i < gradient.size(); ++i)
    gradient[i] = 1e-6F * static_cast<float>(1 + i / 20) * (static_cast<float>(i % 20) - 7.5F);
  for (int i = 0; i < 3; ++i)
    run_devices(kGroupDevices, [&](std::size_t d) {
      group.replicas[d].zero_grad();
      auto step = group.sync.step(device(d));
      step.backward(with_gradient(group.replicas[d].wide, gradient));
    });
  const Floats got = floats_of(group.replicas[0].wide.grad());
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(std::fabs(got[i] - gradient[i]) < 2e-7F);
}

TEST_CASE("power_sgd: a device that has left goes on sending what it kept, and followers receive") {
  CompressingGroup group({.rank = 1, .minimum_rate = 1});
  std::vector<double> applied(12 * 20);
  const auto note = [&](std::size_t d) {
    if (d == 0) add(applied, floats_of(group.replicas[0].wide.grad()));
  };
  std::vector<Floats> last(kGroupDevices);
  run_devices(kGroupDevices, [&](std::size_t d) {
    for (int i = 0; i < (d == 2 ? 3 : 8); ++i) {
      group.step(d, i, {});
      note(d);
      last[d] = floats_of(group.replicas[d].wide.grad());
    }
    group.sync.leave(device(d), d == 2 ? Follow::yes : Follow::no);
    if (d != 2) return;
    while (group.sync.follow(device(d))) last[d] = floats_of(group.replicas[d].wide.grad());
  });
  CHECK(last[2] == last[0]);
  std::vector<double> want(applied.size());
  for (int step = 0; step < 8; ++step)
    add_mean(want, step, [&](int number, std::size_t d) {
      const bool there = d != 2 || number < 3;
      return Part{.weight = there ? 1.0 : 0.0, .wide = there};
    });
  for (std::size_t d = 0; d < kGroupDevices; ++d) add(applied, group.kept("wide", d), 1.0 / kGroupDevices);
  CHECK(distance(applied, want) < 1e-4);
}

namespace {

double loss_after_training(std::shared_ptr<GradientCompression> compression) {
  GradientSync sync(test_devices(2), {.compression = std::move(compression)});
  Generator initial(5);
  auto replicas = sync.replicate(Linear(24, 10, initial));
  std::vector<double> losses(2);
  run_devices(2, [&](std::size_t d) {
    Sgd optimizer(replicas[d].parameters(), 0.3);
    for (int i = 0; i < 200; ++i) {
      Generator random(static_cast<std::uint64_t>(i), d);
      const Array x = random.normal({16, 24}, DType::f32, device(d));
      const Array labels = arg_reduce(ArgReduction::arg_max, x.slice(1, 0, 10), 1);
      optimizer.zero_grad();
      auto step = sync.step(device(d), 16);
      const Tensor loss = cross_entropy(replicas[d].forward(Tensor(x)), Tensor(labels));
      step.backward(loss);
      optimizer.step();
      if (i >= 180) losses[d] += loss.item<double>() / 20;
    }
  });
  return (losses[0] + losses[1]) / 2;
}

}  // namespace

TEST_CASE("power_sgd: training ends where it does uncompressed") {
  const double plain = loss_after_training(nullptr);
  CHECK(plain < 0.8);
  CHECK(loss_after_training(std::make_shared<PowerSgd>(PowerSgdOptions{.rank = 2})) ==
        doctest::Approx(plain).epsilon(0.1));
}

TEST_SUITE_END();
