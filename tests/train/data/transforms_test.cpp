// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <tutti/backend/error.h>
#include <tutti/tests/test_devices.h>
#include <tutti/train/data/batches.h>
#include <tutti/train/data/mapped.h>
#include <tutti/train/data/transforms.h>

#include <map>
#include <numeric>

using namespace tutti;

namespace {

/// Image i is all i + 1 at its only bright pixel, at (1, 2) of 3 x 4, in both of its planes.
Examples bright(std::int64_t count, DType dtype = DType::f32) {
  std::vector<float> pixels(static_cast<std::size_t>(count * 24));
  for (std::size_t i = 0; i < pixels.size(); ++i)
    if (i % 12 == 6) pixels[i] = static_cast<float>(i / 24 + 1);
  std::vector<std::int64_t> targets(static_cast<std::size_t>(count));
  std::iota(targets.begin(), targets.end(), 0);
  return {Array::from(pixels, {count, 2, 3, 4}, test_device()).cast(dtype),
          Array::from(targets, {count}, test_device())};
}

using Images = std::map<std::int64_t, std::vector<float>>;

void collect(Images& images, DataStream<Batch>& stream) {
  while (const auto batch = stream.next()) {
    const std::vector<float> pixels = batch->inputs.cast(DType::f32).to_vector<float>();
    const std::vector<std::int64_t> targets = batch->targets.to_vector<std::int64_t>();
    for (std::size_t i = 0; i < targets.size(); ++i)
      images[targets[i]] = {pixels.begin() + static_cast<std::ptrdiff_t>(24 * i),
                            pixels.begin() + static_cast<std::ptrdiff_t>(24 * (i + 1))};
  }
}

Images epoch_of(const BatchTransform& transform, std::int64_t batch, std::size_t devices, std::int64_t epoch) {
  const BatchStream batches(bright(40), {.batch = batch, .devices = test_devices(devices), .seed = 6});
  Images images;
  for (std::size_t device = 0; device < devices; ++device) {
    const auto stream = mapped(batches.stream(device), transform);
    stream->start_epoch(epoch);
    collect(images, *stream);
  }
  return images;
}

Batch batch_of(const Examples& examples) {
  return {.inputs = Tensor(examples.inputs), .targets = Tensor(examples.targets), .size = examples.size()};
}

}  // namespace

TEST_CASE("transforms: random ones draw the same on any number of devices, and others in another epoch") {
  for (const BatchTransform& transform : {random_shift(2, 9), random_flip(0.5, 9)}) {
    const Images one = epoch_of(transform, 12, 1, 0);
    CHECK(one.size() == 40);
    CHECK(one == epoch_of(transform, 4, 3, 0));
    CHECK(one == epoch_of(transform, 6, 2, 0));
    CHECK(one != epoch_of(transform, 12, 1, 1));
  }
}

TEST_CASE("transforms: after a resume they go on as if nothing had been") {
  const BatchStream batches(bright(40), {.batch = 7, .devices = test_devices(1), .seed = 6});
  const auto whole = mapped(mapped(batches.stream(), random_shift(1, 1)), random_flip(0.5, 2));
  for (int i = 0; i < 3; ++i) whole->next();
  const auto resumed = mapped(mapped(batches.stream(), random_shift(1, 1)), random_flip(0.5, 2));
  resumed->seek(whole->position());
  Images expected;
  Images got;
  collect(expected, *whole);
  collect(got, *resumed);
  CHECK(got.size() == 19);
  CHECK(got == expected);
}

TEST_CASE("random_shift: each distance is as likely, both planes move alike, what leaves is gone") {
  std::map<std::size_t, int> places;
  for (std::int64_t epoch = 0; epoch < 50; ++epoch)
    for (const auto& [target, pixels] : epoch_of(random_shift(1, 3), 40, 1, epoch)) {
      std::vector<float> expected(24);
      for (std::size_t i = 0; i < 12; ++i)
        if (pixels[i] != 0) {
          ++places[i];
          expected[i] = expected[12 + i] = static_cast<float>(target + 1);
        }
      CHECK(pixels == expected);
    }
  CHECK(places.size() == 9);                                                    // (0..2, 1..3)
  for (const auto& [place, count] : places) CHECK(std::abs(count - 222) < 60);  // of 2000
  Batch far = random_shift(10, 3)(batch_of(bright(30)));
  CHECK(far.inputs.sum().item<double>() < 2 * 465);  // most have left
}

TEST_CASE("random_flip: turns rows around, with the probability that is said") {
  const std::vector<float> once = random_flip(1.0, 3)(batch_of(bright(1))).inputs.to_vector<float>();
  CHECK(once[5] == 1);
  CHECK(once[6] == 0);
  CHECK(once[17] == 1);
  int turned = 0;
  for (const auto& [target, pixels] : epoch_of(random_flip(0.25, 8), 40, 1, 0)) turned += pixels[5] != 0 ? 1 : 0;
  CHECK(std::abs(turned - 10) < 12);
  CHECK(epoch_of(random_flip(0.0, 8), 40, 1, 0) == epoch_of(random_shift(0, 8), 40, 1, 0));
}

TEST_CASE("transforms: integers, empty batches and other devices") {
  const Batch bytes = random_flip(1.0, 3)(batch_of(bright(2, DType::u8)));
  CHECK(bytes.inputs.dtype() == DType::u8);
  CHECK(bytes.inputs.cast(DType::f32).to_vector<float>()[24 + 5] == 2);
  const Batch empty = random_shift(1, 1)(
      batch_of({Array::zeros({0, 3, 3}, DType::f32, test_device()), Array::zeros({0}, DType::i64, test_device())}));
  CHECK(empty.inputs.shape() == Shape{0, 3, 3});
  const Batch moved = on_device(test_device(1))(batch_of(bright(2)));
  CHECK(moved.inputs.device() == test_device(1));
  CHECK(moved.targets.device() == test_device(1));
  CHECK_THROWS_AS(random_shift(1, 1)(batch_of({Array::zeros({4, 3}, DType::f32, test_device()), {}})), ShapeError);
  CHECK_THROWS_AS(random_shift(-1, 1), Error);
  CHECK_THROWS_AS(random_flip(1.5, 1), Error);
}

TEST_CASE("normalize: by channel") {
  const Batch batch = normalize({1, 3}, {2, 4})(batch_of(bright(1, DType::u8)));
  const std::vector<float> pixels = batch.inputs.to_vector<float>();
  CHECK(pixels[0] == -0.5F);
  CHECK(pixels[6] == 0.0F);
  CHECK(pixels[12] == -0.75F);
  CHECK(pixels[18] == -0.5F);
  CHECK(!batch.inputs.requires_grad());
  CHECK(normalize({1}, {2})(batch_of(bright(1, DType::f64))).inputs.dtype() == DType::f64);
  CHECK_THROWS_AS(normalize({1, 2, 3}, {1, 1, 1})(batch_of(bright(1))), ShapeError);
  CHECK_THROWS_AS(normalize({1}, {0}), Error);
  CHECK_THROWS_AS(normalize({1}, {1, 2}), Error);
  CHECK_THROWS_AS(normalize({}, {}), Error);
}
