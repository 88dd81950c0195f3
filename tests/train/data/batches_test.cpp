// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <tutti/backend/error.h>
#include <tutti/tests/train/data/numbered_examples.h>

#include <algorithm>
#include <numeric>

using namespace tutti;
using namespace tutti::testing;

namespace {

std::vector<Device> devices(int count) {
  std::vector<Device> result;
  for (int i = 0; i < count; ++i) result.push_back(test_device(i));
  return result;
}

std::vector<std::int64_t> step_rows(const BatchStream::Epoch& epoch, std::int64_t step, int devices) {
  std::vector<std::int64_t> rows;
  for (int device = 0; device < devices; ++device) {
    const auto part = epoch.rows(step, static_cast<std::size_t>(device));
    rows.insert(rows.end(), part.begin(), part.end());
  }
  return rows;
}

/// Sizes in a step: equal, or the earlier devices have one more.
void check_even(const BatchStream::Epoch& epoch, std::int64_t step, int devices, std::int64_t batch) {
  std::size_t previous = static_cast<std::size_t>(batch);
  std::size_t first = 0;
  for (int device = 0; device < devices; ++device) {
    const std::size_t size = epoch.rows(step, static_cast<std::size_t>(device)).size();
    if (device == 0) first = size;
    CHECK(size <= previous);
    CHECK(first - size <= 1);
    if (step + 1 < epoch.steps()) CHECK(size == static_cast<std::size_t>(batch));
    previous = size;
  }
}

}  // namespace

TEST_CASE("BatchStream: every example once in each epoch, for many sizes, devices and batches") {
  for (std::int64_t size = 1; size <= 40; ++size)
    for (int count = 1; count <= 5; ++count)
      for (std::int64_t batch = 1; batch * count <= size; ++batch) {
        CAPTURE(size);
        CAPTURE(count);
        CAPTURE(batch);
        const BatchStream stream(numbered(size), {.batch = batch, .devices = devices(count), .seed = 9});
        const BatchStream::Epoch epoch = stream.epoch(2);
        REQUIRE(epoch.steps() == stream.steps());
        REQUIRE(epoch.steps() == (size + batch * count - 1) / (batch * count));
        std::vector<std::int64_t> seen;
        for (std::int64_t step = 0; step < epoch.steps(); ++step) {
          check_even(epoch, step, count, batch);
          const std::vector<std::int64_t> rows = step_rows(epoch, step, count);
          seen.insert(seen.end(), rows.begin(), rows.end());
        }
        std::sort(seen.begin(), seen.end());
        std::vector<std::int64_t> all(static_cast<std::size_t>(size));
        std::iota(all.begin(), all.end(), 0);
        REQUIRE(seen == all);
      }
}

TEST_CASE("BatchStream: N devices with batch B see what one with N x B sees") {
  for (const int count : {2, 3, 4}) {
    const BatchStream many(numbered(103), {.batch = 5, .devices = devices(count), .seed = 4});
    const BatchStream one(numbered(103), {.batch = 5 * count, .seed = 4});
    REQUIRE(many.steps() == one.steps());
    for (std::int64_t step = 0; step < one.steps(); ++step)
      CHECK(step_rows(many.epoch(1), step, count) == step_rows(one.epoch(1), step, 1));
  }
}

TEST_CASE("BatchStream: batches hold their rows, on their device") {
  const BatchStream stream(numbered(7), {.batch = 2, .devices = devices(2), .seed = 1});
  const BatchStream::Epoch epoch = stream.epoch(0);
  for (std::int64_t step = 0; step < 2; ++step)
    for (std::size_t device = 0; device < 2; ++device) {
      const Batch batch = epoch.batch(step, device);
      CHECK(batch.inputs.device() == test_device(device));
      CHECK(batch.targets.device() == batch.inputs.device());
      CHECK(batch.inputs.shape() == Shape{batch.size, 2});
      CHECK(batch.weight() == static_cast<double>(batch.size));
      const std::vector<std::int64_t> targets = batch.targets.to_vector<std::int64_t>();
      const std::vector<float> inputs = batch.inputs.to_vector<float>();
      const auto rows = epoch.rows(step, device);
      CHECK(targets == std::vector<std::int64_t>(rows.begin(), rows.end()));
      for (std::size_t i = 0; i < targets.size(); ++i)
        CHECK(inputs[2 * i + 1] == static_cast<float>(2 * targets[i] + 1));
    }
}

TEST_CASE("BatchStream: a device may be left without examples in the last step") {
  const BatchStream stream(numbered(7), {.batch = 2, .devices = devices(3)});
  const BatchStream::Epoch epoch = stream.epoch(0);
  CHECK(epoch.batch(1, 0).size == 1);
  const Batch empty = epoch.batch(1, 2);
  CHECK(empty.size == 0);
  CHECK(empty.weight() == 0.0);
  CHECK(empty.inputs.shape() == Shape{0, 2});
  CHECK(empty.targets.shape() == Shape{0});
}

TEST_CASE("BatchStream: the order is a function of seed and epoch") {
  const auto order = [](std::uint64_t seed, std::int64_t epoch) {
    return step_rows(BatchStream(numbered(60), {.batch = 60, .seed = seed}).epoch(epoch), 0, 1);
  };
  CHECK(order(1, 0) == order(1, 0));
  CHECK(order(1, 0) != order(1, 1));
  CHECK(order(1, 0) != order(2, 0));
  const BatchStream plain(numbered(6), {.batch = 4, .shuffle = false});
  CHECK(step_rows(plain.epoch(3), 0, 1) == std::vector<std::int64_t>{0, 1, 2, 3});
  CHECK(step_rows(plain.epoch(3), 1, 1) == std::vector<std::int64_t>{4, 5});
}

TEST_CASE("BatchStream: every place is as likely for an example") {
  std::vector<int> first(5);
  const BatchStream stream(numbered(5), {.batch = 1, .seed = 8});
  for (int epoch = 0; epoch < 5000; ++epoch) ++first[static_cast<std::size_t>(stream.epoch(epoch).rows(0, 0)[0])];
  for (const int count : first) CHECK(std::abs(count - 1000) < 130);  // over four standard deviations
}

TEST_CASE("BatchStream: an epoch outlives its stream") {
  const BatchStream::Epoch epoch = BatchStream(numbered(4), {.batch = 4, .shuffle = false}).epoch(0);
  CHECK(epoch.batch(0).targets.to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 1, 2, 3});
}

TEST_CASE("BatchStream: refuses what cannot be") {
  const auto refused = [](BatchOptions options) { CHECK_THROWS_AS(BatchStream(numbered(10), options), Error); };
  refused({.batch = 0});
  refused({.batch = -3});
  refused({.batch = 11});
  refused({.batch = 6, .devices = devices(2)});
  refused({.batch = std::int64_t{1} << 62, .devices = devices(4)});
  refused({.batch = 1, .devices = {}});
  refused({.batch = 1, .devices = {test_device(), test_device()}});
  CHECK_THROWS_AS(BatchStream({numbered(10).inputs, numbered(9).targets}, {.batch = 1}), ShapeError);
  const BatchStream::Epoch epoch = BatchStream(numbered(10), {.batch = 5}).epoch(0);
  CHECK_THROWS_AS(epoch.batch(2), Error);
  CHECK_THROWS_AS(epoch.batch(-1), Error);
  CHECK_THROWS_AS(epoch.batch(0, 1), Error);
}

TEST_CASE("BatchStream: several processes read what one reads, each the rows of its own devices, from any position") {
  const std::vector<Device> all = devices(5);
  for (const std::int64_t size : {5, 23, 40}) {
    const BatchStream one(numbered(size), {.batch = 1 + size / 10, .devices = all, .seed = 9});
    for (std::size_t first = 0; first < all.size(); ++first)
      for (std::size_t count = 1; first + count <= all.size(); ++count) {
        const WorldShare world{.processes = 2, .devices = all.size(), .first = first};
        const BatchStream part(
            numbered(size),
            {.batch = 1 + size / 10, .devices = devices(static_cast<int>(count)), .world = world, .seed = 9});
        CHECK(part.steps() == one.steps());
        for (std::size_t d = 0; d < count; ++d) {
          const auto ours = part.stream(d);
          const auto theirs = one.stream(first + d);
          CHECK(ours->devices() == all.size());
          CHECK(rest(*ours) == rest(*theirs));
          CHECK(ours->position() == theirs->position());
          ours->seek(one.stream(0)->position());
          CHECK(rest(*ours).size() == static_cast<std::size_t>(one.steps()));
        }
        CHECK_THROWS_WITH_AS(part.stream(count), doctest::Contains("device number"), Error);
      }
  }
}

TEST_CASE("BatchStream: devices that are more than the world's, and a batch for all of them that is too large") {
  const WorldShare world{.processes = 2, .devices = 4, .first = 3};
  CHECK_THROWS_WITH_AS(BatchStream(numbered(20), {.batch = 1, .devices = devices(2), .world = world}),
                       doctest::Contains("2 devices from number 3 on are more than the world's 4"), Error);
  CHECK_THROWS_WITH_AS(BatchStream(numbered(20), {.batch = 6, .devices = devices(1), .world = world}),
                       doctest::Contains("4 devices x batch 6"), Error);
}
