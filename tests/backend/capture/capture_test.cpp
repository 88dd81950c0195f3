// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/capture/capture.h>

#include <tutti/backend/error.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/registry.h>

#include <doctest/doctest.h>

#include <optional>

#include <tutti/tests/test_devices.h>

using namespace tutti;

namespace {

Array twos() { return Array::full({4}, 2, DType::f32, test_device()); }

std::vector<float> values(const Array& array) { return array.to_vector<float>(); }

}  // namespace

TEST_CASE("capture: a tape does the same again, on what memory from outside holds then") {
  const Array x = twos();
  const Array result = twos();
  Capture capture(test_device());
  {
    const CaptureScope scope(capture);
    Array to = result;
    to.copy_from(apply(elementwise::Multiply{}, x, apply(elementwise::Add{}, x, x)));
  }
  CHECK(values(result) == std::vector<float>(4, 8.0F));
  CHECK(capture.tape().size() == 3);
  Array(x).fill(3);
  const auto version = result.storage()->version();
  capture.begin_replay();
  capture.run(0, 2);
  CHECK(values(result) == std::vector<float>(4, 8.0F));
  capture.run(2, 3);
  CHECK(values(result) == std::vector<float>(4, 18.0F));
  CHECK(result.storage()->version() == version + 1);
}

TEST_CASE("capture: what is read backwards is read so in a replay") {
  const Array x = Array::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3}, test_device());
  const Array none = Array::empty({0, 3}, DType::f32, test_device());
  Array result = Array::empty({2, 3}, DType::f32, test_device());
  Capture capture(test_device());
  {
    const CaptureScope scope(capture);
    result.copy_from(as_strided(x, {2, 3}, {3, -1}, 2));
    result.copy_from(as_strided(result.copy(), {2, 3}, {-3, 1}, 3));
    (void)as_strided(none, {0, 3}, {-3, -1}, 0).copy();
  }
  Array(x).copy_from(apply(elementwise::Add{}, x, x));
  capture.begin_replay();
  capture.run(0, capture.tape().size());
  CHECK(values(result) == std::vector<float>{12, 10, 8, 6, 4, 2});
}

TEST_CASE("capture: memory is its own, shared by what is not alive at the same time, and kept by its arrays") {
  auto capture = std::make_optional<Capture>(test_device());
  Array kept;
  {
    const CaptureScope scope(*capture);
    Array x = twos();
    for (int i = 0; i < 20; ++i) {
      x = apply(elementwise::Add{}, x, x);
      synchronize(test_device());  // what is queued holds memory
    }
    kept = x;
  }
  CHECK(capture->memory_bytes() == 2 * 64);
  CHECK(capture->live_storages() == 1);
  capture.reset();
  CHECK(values(kept) == std::vector<float>(4, 2.0F * (1 << 20)));
}

TEST_CASE("capture: draws go on where their generators stand") {
  Generator random(5);
  const Array result = Array::zeros({3, 4}, DType::f32, test_device());
  const auto draw = [&](Generator& from) {
    Generator made = from.fork().split(2);
    Generator own(9);
    const Array rows[] = {from.uniform({1, 4}, DType::f32, test_device()),
                          made.uniform({1, 4}, DType::f32, test_device()),
                          own.uniform({1, 4}, DType::f32, test_device())};
    return concatenate(rows, 0);
  };
  Capture capture(test_device());
  {
    const CaptureScope scope(capture);
    Array(result).copy_from(draw(random));
  }
  capture.draws().end();
  (void)random.next_u64();
  Generator same = random;
  for (int i = 0; i < 3; ++i) {
    capture.begin_replay();
    capture.run(0, capture.tape().size());
    CHECK(values(result) == values(draw(same)));
  }
  CHECK(random.next_u64() == same.next_u64());
  CHECK_FALSE(capture.draws().stale());
  random = Generator(1);  // the same object: replays draw from what it is now
  CHECK_FALSE(capture.draws().stale());
}

TEST_CASE("capture: a fork draws as a generator that the next number seeds") {
  Generator random(5);
  Generator same = random;
  Generator fork = random.fork();
  Generator seeded(same.next_u64());
  CHECK(fork.next_u64() == seeded.next_u64());
  CHECK(random.next_u64() == same.next_u64());
}

TEST_CASE("capture: tapes differ where numbers, shapes or the flow of data do") {
  const Array x = twos();
  const Array y = twos();
  const auto tape_of = [&](double number, const Array& second, bool swapped) {
    auto capture = std::make_unique<Capture>(test_device());
    const CaptureScope scope(*capture);
    const Array a = apply(elementwise::Multiply{}, x, Array::full({}, number, DType::f32, test_device()));
    const Array b = apply(elementwise::Add{}, x, second);
    (void)apply(elementwise::Subtract{}, swapped ? b : a, swapped ? a : b);
    return capture;
  };
  const auto first = tape_of(1, y, false);
  CHECK(first->tape().difference(tape_of(1, y, false)->tape()) == "");
  CHECK(first->tape().difference(tape_of(2, y, false)->tape()).find("call 1 (fill)") != std::string::npos);
  CHECK(first->tape().difference(tape_of(1, x, false)->tape()).find("(add)") != std::string::npos);
  CHECK(first->tape().difference(tape_of(1, y, true)->tape()).find("(subtract)") != std::string::npos);
}

TEST_CASE("capture: what is suspended, of another device or from the host") {
  Capture capture(test_device());
  const CaptureScope scope(capture);
  CHECK_THROWS_AS((void)CaptureScope{capture}, CaptureError);
  {
    const CaptureSuspension off;
    CHECK(values(twos()) == std::vector<float>(4, 2.0F));
  }
  CHECK(capture.tape().size() == 0);
  CHECK_THROWS_AS(values(twos()), CaptureError);
  CHECK_THROWS_AS(Array::zeros({2}, DType::f32, test_device(1)), CaptureError);
  CHECK_THROWS_AS(Array::from(std::vector<float>{1}, {1}, test_device()), CaptureError);
  const HostConstants constants;
  CHECK_NOTHROW(Array::from(std::vector<float>{1}, {1}, test_device()));
}

TEST_CASE("capture: nothing passes between a captured CPU device and devices of another kind" *
          doctest::skip(tests_run_on_cpu())) {
  const Array here = Array::full({4}, 2, DType::f32, cpu());
  const Array there = Array::full({4}, 3, DType::f32, test_device());
  Capture capture(cpu());
  const CaptureScope scope(capture);
  Array mine = Array::full({4}, 1, DType::f32, cpu());
  Array theirs = Array::full({4}, 1, DType::f32, test_device());
  CHECK_THROWS_WITH_AS((void)here.to(test_device()), doctest::Contains("[capture] the step copies from cpu:0 to "),
                       CaptureError);
  CHECK_THROWS_AS((void)there.to(cpu()), CaptureError);
  CHECK_THROWS_AS(mine.copy_from(there), CaptureError);
  CHECK_THROWS_AS(theirs.copy_from(here), CaptureError);
}
