// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/capture/elementwise_chains.h>

#include <tutti/backend/capture/capture.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/random.h>
#include <tutti/backend/registry.h>

#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <vector>

#include <tutti/tests/test_devices.h>

using namespace tutti;

namespace {

constexpr std::int64_t kLength = 5003;  // some tiles and a rest that no pack fills

Array drawn(Generator& random, DType dtype) { return random.normal({kLength}, DType::f32, test_device()).cast(dtype); }

/// A capture of `work`, whose replays make each call of the tape or its chains.
struct Captured {
  explicit Captured(const std::function<void()>& work) : capture(test_device()) {
    capture.use_graphs(false);
    const CaptureScope scope(capture);
    work();
  }
  void replay(std::size_t begin, std::size_t end) {
    capture.begin_replay();
    capture.run(begin, end);
  }
  void replay() { replay(0, capture.tape().size()); }

  Capture capture;
};

std::vector<float> values(const Array& array) { return array.cast(DType::f32).to_vector<float>(); }

template <class Operation> void write(const Operation& operation, std::vector<Array> inputs, const Array& output) {
  for (Array& input : inputs) input = input.broadcast_to(output.shape());
  backend_for(output.device())
      .elementwise(elementwise::make_call(operation, ElementwiseCall::Part::value), inputs, output);
}

}  // namespace

TEST_CASE("elementwise chains: a replay does the same at once, on what memory from outside holds then") {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    CAPTURE(to_string(dtype));
    Generator random(3);
    const Array x = drawn(random, dtype);
    const Array half = Array::full({}, 0.5, dtype, test_device());
    Array result = Array::empty({kLength}, dtype, test_device());
    const auto formula = [&] {  // its temporary arrays share memory
      const Array sum = apply(elementwise::Add{}, apply(elementwise::Tanh{}, x), half);
      return apply(elementwise::Multiply{}, apply(elementwise::Exp{}, apply(elementwise::Negate{}, sum)), x);
    };
    Captured captured([&] { result.copy_from(formula()); });
    REQUIRE(captured.capture.tape().size() == 6);
    for (int i = 0; i < 2; ++i) {
      Array(x).copy_from(drawn(random, dtype));
      captured.replay();
      CHECK(values(result) == values(formula()));
    }
    CHECK(captured.capture.chained_calls() == 5);
    captured.replay(0, 3);  // other parts have chains of their own
    CHECK(captured.capture.chained_calls() == 3);
    captured.replay(3, 6);
    CHECK(captured.capture.chained_calls() == 2);
    CHECK(values(result) == values(formula()));
  }
}

TEST_CASE("elementwise chains: masks, integers, gradients and matrices are in them, rows and columns are not") {
  Generator random(4);
  const Array x = random.normal({40, 60}, DType::f32, test_device());
  const Array row = random.normal({60}, DType::f32, test_device());
  const Array y = Array::empty({40, 60}, DType::f32, test_device());
  const Array mask = Array::empty({40, 60}, DType::boolean, test_device());
  const Array turned = as_strided(y, {60, 40}, {1, 60}, 0);
  const Array wide = Array::empty({60, 40}, DType::f32, test_device());
  const auto work = [&] {
    write(elementwise::Greater{}, {x, row}, mask);  // by itself: a row
    write(elementwise::Greater{}, {x, Array::full({}, 0, DType::f32, test_device())}, mask);
    write(elementwise::Square{}, {x}, y);
    write(elementwise::Add{}, {y, x}, y);          // in place
    write(elementwise::Negate{}, {turned}, wide);  // by itself: strides
    write(elementwise::Add{}, {wide, wide}, wide);
  };
  Captured captured(work);
  const auto seen = [&] { return std::vector{values(mask), values(y), values(wide)}; };
  const auto expected = seen();
  Array(mask).fill(0), Array(y).fill(7), Array(wide).fill(7);
  captured.replay();
  CHECK(seen() == expected);
  CHECK(captured.capture.chained_calls() == 3);
}

TEST_CASE("elementwise chains: steps whose memory overlaps otherwise than element by element are apart") {
  const Array memory = Array::empty({kLength + 1}, DType::f32, test_device());
  const Array here = as_strided(memory, {kLength}, {1}, 0);
  const Array there = as_strided(memory, {kLength}, {1}, 1);  // the next element's
  const Array first = as_strided(memory, {kLength}, {0}, 0);  // one element for all
  const Array ones = Array::full({kLength}, 1, DType::f32, test_device());
  const Array to = Array::empty({kLength}, DType::f32, test_device());
  Generator random(6);
  const Array start = random.normal(memory.shape(), DType::f32, test_device());
  const auto check = [&](const std::function<void()>& work, std::size_t chained) {
    Array(memory).copy_from(start);
    Array(to).fill(0);
    Captured captured(work);
    const auto expected = std::vector{values(memory), values(to)};
    Array(memory).copy_from(start);
    Array(to).fill(0);
    captured.replay();
    CHECK(captured.capture.chained_calls() == chained);
    CHECK(std::vector{values(memory), values(to)} == expected);
  };
  SUBCASE("read, then written one element before") {
    check([&] { write(elementwise::Negate{}, {here}, to), write(elementwise::Exp{}, {to}, there); }, 0);
  }
  SUBCASE("written, then read one element before") {
    check([&] { write(elementwise::Exp{}, {ones}, there), write(elementwise::Negate{}, {here}, to); }, 0);
  }
  SUBCASE("one element of what was written") {
    check([&] { write(elementwise::Add{}, {ones, ones}, here), write(elementwise::Add{}, {ones, first}, to); }, 0);
  }
  SUBCASE("one element of what is written then") {
    check([&] { write(elementwise::Add{}, {ones, first}, to), write(elementwise::Add{}, {ones, ones}, here); }, 0);
  }
  SUBCASE("read in elements of another size, then written") {
    const Array bytes = Array::over(memory.raw_data(), memory.storage(), DType::u8, {kLength}, {1}, test_device());
    const Array sums = Array::zeros({kLength}, DType::u8, test_device());
    const Array seven = Array::full({}, 7, DType::u8, test_device());
    check(
        [&] {
          write(elementwise::BitXor{}, {bytes, seven}, sums);
          write(elementwise::Add{}, {ones, ones}, here);
          write(elementwise::Multiply{}, {sums.cast(DType::f32), ones}, to);  // by itself, behind a cast
        },
        0);
  }
  SUBCASE("at the same place") {
    check([&] { write(elementwise::Add{}, {here, ones}, here), write(elementwise::Add{}, {here, here}, to); }, 2);
  }
}

TEST_CASE("elementwise chains: those of one size are apart from those of another, and long ones are cut") {
  Generator random(7);
  const Array x = random.normal({70000}, DType::f32, test_device());  // for several threads
  const Array y = Array::empty({70000}, DType::f32, test_device());
  const Array small = Array::empty({3}, DType::f32, test_device());
  Captured captured([&] {
    write(elementwise::Tanh{}, {x}, y);
    for (int i = 0; i < 99; ++i) write(elementwise::Multiply{}, {y, x}, y);
    write(elementwise::Add{}, {small, small}, small);
    write(elementwise::Add{}, {small, small}, small);
  });
  const auto expected = values(y);
  Array(y).fill(7);
  captured.replay();
  CHECK(values(y) == expected);
  CHECK(captured.capture.chained_calls() == 102);
}

TEST_CASE("elementwise chains: numbers of the program's text are in them, and are compared by value") {
  Generator random(8);
  const Array x = drawn(random, DType::f32);
  Array result = Array::empty({kLength}, DType::f32, test_device());
  const auto work = [&](double number) {
    return [&, number] {
      const auto literal = [&](double value) {
        return backend_for(test_device()).literal(value, DType::f32, test_device());
      };
      const Array half = apply(elementwise::Multiply{}, x, literal(0.5));
      result.copy_from(apply(elementwise::Add{}, half, literal(number)));
    };
  };
  Captured captured(work(0.25));
  const auto expected = values(result);
  result.fill(7);
  captured.replay();
  CHECK(values(result) == expected);
  CHECK(captured.capture.chained_calls() == 2);
  CHECK(captured.capture.tape().size() == 3);
  CHECK(captured.capture.tape().difference(Captured(work(0.25)).capture.tape()).empty());
  CHECK(captured.capture.tape().difference(Captured(work(0.75)).capture.tape()) ==
        "call 2 (add) had other numbers, shapes or operands");
}

TEST_CASE("elementwise chains: any program does in a replay what it does call by call") {
  Generator random(5);
  int chained = 0;
  for (int program = 0; program < 60; ++program) {
    CAPTURE(program);
    // Four blocks of memory, and views of each that begin at one of three elements.
    const Array memory = Array::empty({4, kLength + 2}, DType::f32, test_device());
    const auto view = [&] {
      const auto block = static_cast<std::int64_t>(random.below(4));
      const auto offset = random.below(8) < 6 ? 0 : static_cast<std::int64_t>(1 + random.below(2));
      const bool one = random.below(8) == 0;
      return as_strided(memory, {kLength}, {one ? 0 : 1}, block * (kLength + 2) + offset);
    };
    const auto apart = [](const Array& a, const Array& b) {  // or at the same place
      const std::int64_t distance = a.offset() - b.offset();
      return (distance == 0 && a.strides() == b.strides()) || std::abs(distance) > kLength;
    };
    struct Step {
      std::uint64_t kind;
      Array a, b, to;
    };
    std::vector<Step> steps;
    while (steps.size() < 12) {
      Step step{random.below(3), view(), view(), view()};
      if (!step.to.is_contiguous() || !apart(step.to, step.a) || !apart(step.to, step.b)) continue;
      steps.push_back(step);
    }
    const auto work = [&] {
      for (const Step& step : steps) switch (step.kind) {
          case 0: write(elementwise::Add{}, {step.a, step.b}, step.to); break;
          case 1: write(elementwise::Maximum{}, {step.a, step.b}, step.to); break;
          default: write(elementwise::Tanh{}, {step.a}, step.to);
        }
    };
    const Array start = random.normal(memory.shape(), DType::f32, test_device());
    Array(memory).copy_from(start);
    Captured captured(work);
    const auto expected = values(memory);
    Array(memory).copy_from(start);
    captured.replay();
    CHECK(values(memory) == expected);
    chained += static_cast<int>(captured.capture.chained_calls());
  }
  CHECK(chained > 60);  // so that something was shown
}
