// SPDX-License-Identifier: Apache-2.0
// Values of the collectives: on every number of devices, in every order of arrival, between the steps of their group.
#include <tutti/distributed/gradient_sync.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/random.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/distributed/two_branches.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <chrono>
#include <limits>
#include <thread>

using namespace tutti;
using namespace tutti::testing;

namespace {

template <class T> Tensor on(std::size_t device, const std::vector<T>& values, const Shape& shape) {
  return Tensor(Array::from(values, shape, test_device(device)));
}

Device device(std::size_t d) { return test_device(d); }

// Device d holds 10 d + i at place i.
template <class T> std::vector<T> counting(std::size_t d, std::int64_t count) {
  std::vector<T> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<T>(10 * static_cast<std::int64_t>(d) + i));
  return values;
}

template <class T> void check_all_reduce(GradientSync& sync, std::size_t d, std::size_t count) {
  const Tensor x = on(d, counting<T>(d, 3), {3});
  const auto pairs = static_cast<T>(5 * count * (count - 1));
  const auto n = static_cast<T>(count);
  CHECK(sync.all_reduce(device(d), x).resolve().to_vector<T>() == std::vector<T>{pairs, pairs + n, pairs + 2 * n});
  const T last = static_cast<T>(10 * (count - 1));
  CHECK(sync.all_reduce(device(d), x, CollectiveOperation::max).resolve().to_vector<T>() ==
        std::vector<T>{last, static_cast<T>(last + 1), static_cast<T>(last + 2)});
  CHECK(sync.all_reduce(device(d), x, CollectiveOperation::min).resolve().to_vector<T>() == std::vector<T>{0, 1, 2});
}

}  // namespace

TEST_CASE("collectives: all_reduce of every numeric type") {
  for (const std::size_t count : {1, 2, 3, 4}) {
    GradientSync sync(test_devices(count));
    run_devices(count, [&](std::size_t d) {
      check_all_reduce<float>(sync, d, count);
      check_all_reduce<double>(sync, d, count);
      check_all_reduce<std::int32_t>(sync, d, count);
      check_all_reduce<std::int64_t>(sync, d, count);
      const Tensor mean =
          sync.all_reduce(device(d), on(d, counting<double>(d, 2), {2}), CollectiveOperation::mean).resolve();
      const double middle = 5.0 * static_cast<double>(count - 1);
      CHECK(mean.to_vector<double>() == Values{middle, middle + 1});
      const Tensor scalar = sync.all_reduce(device(d), Tensor(Array::full({}, 2, DType::f32, device(d)))).resolve();
      CHECK(scalar.item<float>() == static_cast<float>(2 * count));
    });
  }
}

TEST_CASE("collectives: run also while reductions of gradients are switched off") {
  GradientSync sync(test_devices(2));
  sync.set_reductions_enabled(false);
  run_devices(2, [&](std::size_t d) { check_all_reduce<float>(sync, d, 2); });
}

TEST_CASE("collectives: NaN wins max and min") {
  GradientSync sync(test_devices(2));
  run_devices(2, [&](std::size_t d) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const Tensor x = on<double>(d, d == 0 ? Values{nan, 1} : Values{1, nan}, {2});
    for (const auto operation : {CollectiveOperation::max, CollectiveOperation::min})
      for (const double value : sync.all_reduce(device(d), x, operation).resolve().to_vector<double>())
        CHECK(value != value);
  });
}

TEST_CASE("collectives: reduce_scatter gives each device its rows, also uneven ones") {
  for (const std::size_t count : {2, 3, 4}) {
    GradientSync sync(test_devices(count));
    run_devices(count, [&](std::size_t d) {
      const auto rows = static_cast<std::int64_t>(count) + 1;  // the first device has two
      const Tensor x = on(d, counting<double>(d, 2 * rows), {rows, 2});
      const Tensor whole = sync.all_reduce(device(d), x).resolve();
      const Tensor part = sync.reduce_scatter(device(d), x).resolve();
      const std::int64_t begin = d == 0 ? 0 : static_cast<std::int64_t>(d) + 1;
      const std::int64_t end = static_cast<std::int64_t>(d) + 2;
      CHECK(part.shape() == Shape{end - begin, 2});
      CHECK(part.to_vector<double>() == slice(whole, 0, begin, end).to_vector<double>());
      std::vector<std::int64_t> parts(count, 0);
      parts.back() = rows;
      const Tensor mine = sync.reduce_scatter(device(d), x, CollectiveOperation::sum, parts).resolve();
      CHECK(mine.to_vector<double>() == (d + 1 == count ? whole.to_vector<double>() : Values{}));
    });
  }
}

TEST_CASE("collectives: all_gather joins rows of any lengths, of any type and layout") {
  for (const std::size_t count : {2, 3, 4}) {
    GradientSync sync(test_devices(count));
    run_devices(count, [&](std::size_t d) {
      std::vector<std::int64_t> expected;
      for (std::size_t e = 0; e < count; ++e)
        for (const std::int64_t value : counting<std::int64_t>(e, static_cast<std::int64_t>(2 * e)))
          expected.push_back(value);
      const auto rows = static_cast<std::int64_t>(d);  // none on the first device
      const Tensor x = on(d, counting<std::int64_t>(d, 2 * rows), {rows, 2});
      CHECK(sync.all_gather(device(d), x).resolve().to_vector<std::int64_t>() == expected);
      const Tensor transposed = transpose(on(d, counting<double>(d, 4), {2, 2}));
      const auto gathered = sync.all_gather(device(d), transposed).resolve().to_vector<double>();
      for (std::size_t e = 0; e < count; ++e) {
        const double base = 10.0 * static_cast<double>(e);
        CHECK(Values(gathered.begin() + static_cast<std::ptrdiff_t>(4 * e),
                     gathered.begin() + static_cast<std::ptrdiff_t>(4 * e + 4)) ==
              Values{base, base + 2, base + 1, base + 3});
      }
      const Tensor flag(Array::from(std::vector<bool>{d == 0}, {1}, device(d)));
      const auto flags = sync.all_gather(device(d), flag).resolve().to_vector<bool>();
      CHECK(flags[0]);
      CHECK_FALSE(flags[1]);
    });
  }
}

TEST_CASE("collectives: broadcast from every root") {
  for (const std::size_t count : {2, 3, 4}) {
    GradientSync sync(test_devices(count));
    run_devices(count, [&](std::size_t d) {
      for (std::size_t root = 0; root < count; ++root)
        CHECK(sync.broadcast(device(d), on(d, counting<float>(d, 3), {3}), device(root)).resolve().to_vector<float>() ==
              counting<float>(root, 3));
    });
  }
}

TEST_CASE("collectives: all_to_all transposes the devices' parts, also uneven ones") {
  for (const std::size_t count : {2, 3, 4}) {
    GradientSync sync(test_devices(count));
    run_devices(count, [&](std::size_t d) {
      const auto n = static_cast<std::int64_t>(count);
      const auto here = static_cast<double>(d);
      Values expected;
      for (std::size_t from = 0; from < count; ++from) expected.push_back(10.0 * static_cast<double>(from) + here);
      CHECK(sync.all_to_all(device(d), on(d, counting<double>(d, n), {n})).resolve().to_vector<double>() == expected);
      // Each device sends `d + 1` values to the last one, and nothing to the others.
      std::vector<std::int64_t> parts(count, 0);
      parts.back() = static_cast<std::int64_t>(d) + 1;
      const Tensor x = on(d, counting<double>(d, parts.back()), {parts.back()});
      expected.clear();
      if (d + 1 == count)
        for (std::size_t from = 0; from < count; ++from)
          for (const double value : counting<double>(from, static_cast<std::int64_t>(from) + 1))
            expected.push_back(value);
      CHECK(sync.all_to_all(device(d), x, parts).resolve().to_vector<double>() == expected);
    });
  }
}

TEST_CASE("collectives: nobody passes a barrier before the last has come") {
  GradientSync sync(test_devices(3));
  std::atomic<int> arrived{0};
  run_devices(3, [&](std::size_t d) {
    for (int round = 1; round <= 20; ++round) {
      ++arrived;
      sync.barrier(device(d));
      CHECK(arrived.load() >= 3 * round);
    }
  });
}

TEST_CASE("collectives: large sums are bitwise the same, whoever arrives last") {
  constexpr std::int64_t kCount = 100'003;  // several chunks, the last one short
  GradientSync sync(test_devices(4));
  std::vector<std::vector<float>> inputs;
  for (std::uint64_t d = 0; d < 4; ++d)
    inputs.push_back(Generator(3, d).normal({kCount}, DType::f32, test_device()).to_vector<float>());
  std::vector<float> expected;
  for (std::size_t i = 0; i < kCount; ++i)
    expected.push_back((inputs[0][i] + inputs[1][i]) + (inputs[2][i] + inputs[3][i]));
  for (std::size_t late = 0; late < 4; ++late)
    run_devices(4, [&](std::size_t d) {
      if (d == late) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      CHECK(sync.all_reduce(device(d), on(d, inputs[d], {kCount})).resolve().to_vector<float>() == expected);
    });
}

TEST_CASE("collectives: inputs may be in the making, and several may be on their way") {
  GradientSync sync(test_devices(2));
  run_devices(2, [&](std::size_t d) {
    std::vector<PendingTensor> pending;
    for (int i = 0; i < 8; ++i) {
      Tensor x(Array::full({300, 300}, 0.5, DType::f64, device(d)));
      for (int turn = 0; turn < 4; ++turn) x = matmul(x, x * (2.0 / 150.0 / 2.0));  // 0.5 again
      pending.push_back(sync.all_reduce(device(d), x + static_cast<double>(i)));
    }
    for (int i = 7; i >= 0; --i) {
      const auto values = pending[static_cast<std::size_t>(i)].resolve().to_vector<double>();
      CHECK(values.front() == doctest::Approx(values.back()));
      CHECK(pending[static_cast<std::size_t>(i)].resolve().to_vector<double>() == values);
    }
  });
}

// Whatever the delays, the values depend on the program alone.
TEST_CASE("collectives: before, inside and after the steps of the same group, in random order of arrival") {
  for (const std::size_t count : {2, 3}) {
    GradientSync sync(test_devices(count), {.reduction = GradientReduction::mean});
    auto replicas = sync.replicate(TwoBranches{});
    const double n = static_cast<double>(count);
    const double sum = n * (n - 1) / 2;  // of the devices' numbers
    run_devices(count, [&](std::size_t d) {
      Generator random(99, d);
      const auto rest = [&] { std::this_thread::sleep_for(std::chrono::microseconds(random.below(300))); };
      const auto here = static_cast<double>(d);
      const auto reduced = [&](double value) {
        return sync.all_reduce(device(d), Tensor(Array::full({2}, value, DType::f64, device(d))));
      };
      for (int i = 0; i < 40; ++i) {
        for (const Tensor& parameter : replicas[d].parameters()) parameter.gradient_slot().state = {};
        rest();
        CHECK(reduced(here + i).resolve().to_vector<double>() == Values(2, sum + n * i));
        auto step = sync.step(device(d));
        {
          const auto local = step.no_sync();
          backward(use(replicas[d].left, here));
        }
        rest();
        PendingTensor across = reduced(here * i);
        step.backward_async(use(replicas[d].left, 1.0) + use(replicas[d].right, here));
        PendingTensor after = reduced(here - i);
        rest();
        if (i % 2 == 0) step.join();
        CHECK(after.resolve().to_vector<double>() == Values(2, sum - n * i));
        CHECK(across.resolve().to_vector<double>() == Values(2, sum * i));
        step.join();
        CHECK(gradient_of(replicas[d].left)[0] == doctest::Approx(1 + sum / n));
        CHECK(gradient_of(replicas[d].right)[0] == doctest::Approx(sum / n));
      }
      sync.leave(device(d));
      CHECK(reduced(here).resolve().to_vector<double>() == Values(2, sum));
    });
  }
}
