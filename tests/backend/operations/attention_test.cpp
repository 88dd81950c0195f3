// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/cpu_threads.h>
#include <tutti/backend/error.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/operations/attention_blocks.h>
#include <tutti/backend/registry.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace tutti {
namespace {

template <class T> Array spread(const Shape& shape, double phase, Device device = test_device()) {
  std::vector<T> values(static_cast<std::size_t>(element_count(shape)));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<T>(1.5 * std::sin(phase + 1.7 * static_cast<double>(i * i % 1013)));
  return Array::from(values, shape, device);
}

/// Which of [queries, keys] are seen: of the second query none.
Array some_seen(std::int64_t queries, std::int64_t keys, Device device) {
  std::vector<bool> seen(static_cast<std::size_t>(queries * keys));
  for (std::size_t i = 0; i < seen.size(); ++i) seen[i] = i / static_cast<std::size_t>(keys) != 1 && i % 3 != 0;
  return Array::from(seen, {queries, keys}, device);
}

/// Axes behind each other as [places, rows, heads, features] in memory: what a projection makes.
template <class T> Array of_heads(const Shape& shape, double phase, Device device = test_device()) {
  return spread<T>({shape[0], shape[2], shape[1], shape[3]}, phase, device).transpose(1, 2);
}

template <class T> void check_close(const Array& found, const Array& expected, double tolerance) {
  REQUIRE(found.shape() == expected.shape());
  const std::vector<T> a = found.to_vector<T>();
  const std::vector<T> b = expected.to_vector<T>();
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!(std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])) <= tolerance)) {
      CAPTURE(i);
      CHECK(a[i] == b[i]);
      return;
    }
}

template <class T>
void check_beside_blocks(const AttentionScores& scores, const AttentionOperands& operands, const Array& dy) {
  const double tolerance = sizeof(T) == 4 ? 3e-5 : 1e-12;
  const AttentionRun run = attention(scores, operands);
  AttentionOperands for_blocks = operands;
  if (operands.mask.defined()) {
    const Array& mask = operands.mask;
    Shape shape = mask.shape();
    shape[shape.size() - 2] = operands.query.length(-2);
    shape[shape.size() - 1] = operands.key.length(-2);
    for_blocks.mask = mask.broadcast_to(shape);
  }
  const AttentionRun expected = attention_blocks::run(scores, for_blocks, {});
  check_close<T>(run.output, expected.output, tolerance);
  const AttentionOperands found = attention_gradient(scores, operands, run, dy);
  const AttentionOperands wanted = attention_blocks::gradients(scores, for_blocks, {}, expected, dy);
  check_close<T>(found.query, wanted.query, tolerance);
  check_close<T>(found.key, wanted.key, tolerance);
  check_close<T>(found.value, wanted.value, tolerance);
}

struct Lengths {
  std::int64_t queries;
  std::int64_t keys;
  std::int64_t features;
  std::int64_t out;
};

TEST_CASE_TEMPLATE("attention: as other kernels make it, of all lengths, masks and layouts", T, float, double) {
  for (const Lengths& size : {Lengths{1, 1, 1, 1}, Lengths{1, 70, 5, 3}, Lengths{4, 9, 16, 8}, Lengths{7, 5, 33, 17},
                              Lengths{50, 49, 8, 40}, Lengths{131, 97, 12, 1}, Lengths{30, 300, 4, 24}}) {
    CAPTURE(size.queries);
    CAPTURE(size.keys);
    const Shape queries{2, 3, size.queries, size.features};
    const Shape keys{2, 3, size.keys, size.features};
    const Shape values{2, 3, size.keys, size.out};
    const Array dy = spread<T>({2, 3, size.queries, size.out}, 7);
    const Array seen = some_seen(size.queries, size.keys, test_device());
    const Array added = spread<T>({3, size.queries, size.keys}, 9);
    for (const bool causal : {false, true})
      for (const Array& mask : {Array(), seen, added, spread<T>({1, size.keys}, 3)}) {
        const AttentionScores scores{0.37, causal, 32};
        check_beside_blocks<T>(scores, {spread<T>(queries, 1), spread<T>(keys, 2), spread<T>(values, 3), mask}, dy);
        check_beside_blocks<T>(scores, {of_heads<T>(queries, 1), of_heads<T>(keys, 2), of_heads<T>(values, 3), mask},
                               dy.transpose(1, 2).contiguous().transpose(1, 2));
      }
    // One head of keys and values for all, and a key whose features do not lie side by side.
    check_beside_blocks<T>({0.5, true, 32},
                           {spread<T>(queries, 1),
                            spread<T>({2, 1, size.features, size.keys}, 2).transpose(),
                            spread<T>({2, 1, size.keys, size.out}, 3),
                            {}},
                           spread<T>({size.out}, 4).broadcast_to({2, 3, size.queries, size.out}));
  }
}

TEST_CASE_TEMPLATE("attention: of 16 bits it is that of f32, rounded once", S, BFloat16, Float16) {
  const auto narrow = [](const Array& x) { return x.cast(dtype_of<S>); };
  const auto wide = [](const Array& x) { return x.cast(DType::f32); };
  const Array mask = spread<float>({1, 70}, 9);
  const Array query = narrow(of_heads<float>({2, 3, 97, 20}, 1));
  for (const std::int64_t heads : {3, 1})  // of keys: shared ones get sums of gradients
    for (const bool causal : {false, true})
      for (const int threads : {1, 3, 8}) {
        CAPTURE(heads);
        CAPTURE(causal);
        set_cpu_threads(cpu(), threads);
        const AttentionScores scores{0.4, causal, 32};
        const AttentionOperands operands{query, narrow(of_heads<float>({2, heads, 70, 20}, 2)),
                                         narrow(spread<float>({2, heads, 70, 33}, 3)), narrow(mask)};
        const AttentionOperands same{wide(query), wide(operands.key), wide(operands.value), wide(operands.mask)};
        const Array dy = narrow(spread<float>({2, 3, 97, 33}, 4));
        const AttentionRun run = attention(scores, operands);
        const AttentionRun expected = attention(scores, same);
        CHECK(run.output.to_vector<S>() == narrow(expected.output).template to_vector<S>());
        CHECK(run.log_sum.to_vector<float>() == expected.log_sum.to_vector<float>());
        const AttentionOperands found = attention_gradient(scores, operands, run, dy);
        const AttentionOperands wanted = attention_gradient(scores, same, {wide(run.output), run.log_sum}, wide(dy));
        CHECK(found.query.to_vector<S>() == narrow(wanted.query).template to_vector<S>());
        CHECK(found.key.to_vector<S>() == narrow(wanted.key).template to_vector<S>());
        CHECK(found.value.to_vector<S>() == narrow(wanted.value).template to_vector<S>());
      }
  set_cpu_threads(cpu(), 1);
}

TEST_CASE("attention: the result lies as the query does, in a projection's order of axes") {
  const Array query = of_heads<float>({2, 3, 9, 4}, 1);
  const Array key = of_heads<float>({2, 3, 9, 4}, 2);
  const AttentionRun run = attention({0.5, true, 32}, {query, key, key, {}});
  if (backend_for(test_device()).has_fused(FusedKernel::attention)) CHECK(run.output.strides() == query.strides());
  CHECK(run.output.transpose(1, 2).contiguous().shape() == Shape{2, 9, 3, 4});
}

TEST_CASE("attention: bits are the same on 1, 2, 3 and 8 threads, with few places and with many") {
  for (const std::int64_t places : {1, 3, 20})
    for (const bool causal : {false, true}) {
      const AttentionOperands operands{spread<float>({places, 1, 210, 24}, 1, cpu()),
                                       spread<float>({places, 1, 190, 24}, 2, cpu()),
                                       spread<float>({places, 1, 190, 33}, 3, cpu()),
                                       {}};
      const Array dy = spread<float>({places, 1, 210, 33}, 4, cpu());
      std::vector<std::vector<float>> expected;
      for (const int threads : {1, 2, 3, 8}) {
        set_cpu_threads(cpu(), threads);
        const AttentionRun run = attention({0.3, causal, 64}, operands);
        const AttentionOperands gradients = attention_gradient({0.3, causal, 64}, operands, run, dy);
        std::vector<std::vector<float>> found;
        for (const Array* const each : {&run.output, &run.log_sum, &gradients.query, &gradients.key, &gradients.value})
          found.push_back(each->to_vector<float>());
        if (threads == 1) expected = found;
        for (std::size_t i = 0; i < found.size(); ++i) {
          CAPTURE(i);
          CHECK(std::memcmp(found[i].data(), expected[i].data(), found[i].size() * sizeof(float)) == 0);
        }
      }
      set_cpu_threads(cpu(), 1);
    }
}

TEST_CASE("attention: large scores do not overflow, and NaN stays in its query's row") {
  std::vector<float> values(6 * 8, 100);
  values[8] = std::numeric_limits<float>::quiet_NaN();
  const Array query = Array::from(values, {6, 8}, test_device());
  const Array key = spread<float>({9, 8}, 1);
  const std::vector<float> found = attention({1, false, 32}, {query, key, key, {}}).output.to_vector<float>();
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(std::isnan(found[i]) == (i / 8 == 1));
}

TEST_CASE("attention: of no places nothing; what does not fit is named") {
  const Array query = spread<float>({3, 4}, 1);
  const Array key = spread<float>({5, 4}, 2);
  const Array none = Array::empty({0, 3, 4}, DType::f32, test_device());
  const AttentionRun nothing = attention({}, {none, key, key, {}});
  CHECK(nothing.output.shape() == Shape{0, 3, 4});
  const AttentionOperands gradients = attention_gradient({}, {none, key, key, {}}, nothing, nothing.output);
  CHECK(gradients.key.to_vector<float>() == std::vector<float>(20, 0));
  const auto refused = [&](const AttentionOperands& operands, const char* text) {
    CHECK_THROWS_WITH_AS(attention({}, operands), doctest::Contains(text), ShapeError);
  };
  refused({query, spread<float>({5, 3}, 2), key, {}}, "do not fit");
  refused({query, key, spread<float>({4, 4}, 2), {}}, "do not fit");
  refused({query, Array::empty({0, 4}, DType::f32, test_device()), Array::empty({0, 4}, DType::f32, test_device()), {}},
          "one of each");
  refused({query, key, key, spread<float>({2, 5}, 3)}, "broadcast");
  CHECK_THROWS_AS(attention({}, {query, key.cast(DType::f64), key, {}}), DTypeError);
  CHECK_THROWS_AS(attention({1, false, 0}, {query, key, key, {}}), ShapeError);
  CHECK_THROWS_AS(attention({}, {query, key, key, {}}, {1.5}), Error);
  const AttentionRun run = attention({}, {query, key, key, {}});
  CHECK_THROWS_AS(attention_gradient({}, {query, key, key, {}}, run, key), ShapeError);
}

}  // namespace
}  // namespace tutti
