// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/autodiff/operations/attention.h>
#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/tests/autodiff/leaves.h>
#include <tutti/tests/close.h>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

namespace tutti {
namespace {

/// The sums that are compared have other orders.
void check_close(const Tensor& found, const Tensor& expected, double epsilon = 1e-9) {
  testing::check_close(found, expected, epsilon);
}

using Inputs = std::vector<Tensor>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Tensor random_leaf(const Shape& shape, std::uint64_t seed) {
  Generator random(seed);
  return Tensor(random.normal(shape, DType::f64, test_device()), true);
}

Tensor random_mask(const Shape& shape, std::uint64_t seed) {
  Generator random(seed);
  return Tensor(random.uniform(shape, DType::f64, test_device())) < 0.7;
}

// All scores at once. Rows that see nothing are left to others.
Tensor plain(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionCall& call) {
  Tensor scores = matmul(q, transpose(k)) * call.scale.value_or(1 / std::sqrt(static_cast<double>(q.length(-1))));
  if (call.mask.defined() && call.mask.dtype() == DType::boolean) scores = where(call.mask, scores, -kInfinity);
  if (call.mask.defined() && call.mask.dtype() != DType::boolean) scores = scores + call.mask;
  const Tensor ones(Array::full(scores.shape(), 1, DType::f64, test_device()));
  if (call.causal) scores = where(tril(ones) == 1.0, scores, -kInfinity);
  return matmul(softmax(scores), v);
}

// Value, gradients from blocks, gradients from all scores at once, second derivatives.
Inputs derivatives(const CheckedFunction& f, const Inputs& inputs) {
  const Tensor y = f(inputs);
  const Tensor loss = sum(y * y * y) + sum(y);
  Inputs results{y};
  const auto kernels = grad(loss, inputs, {.retain_graph = true});
  const auto first = grad(loss, inputs, {.create_graph = true});
  Tensor penalty(0.0);
  for (const Tensor& gradient : first) penalty = penalty + sum(gradient * gradient * gradient);
  const auto second = grad(penalty, inputs);
  for (const auto* each : {&kernels, &first, &second}) results.insert(results.end(), each->begin(), each->end());
  return results;
}

void check_equal(const CheckedFunction& f, const CheckedFunction& expected, const Inputs& inputs) {
  const Inputs values = derivatives(f, inputs);
  const Inputs wanted = derivatives(expected, inputs);
  for (std::size_t i = 0; i < values.size(); ++i) {
    CAPTURE(i);
    check_close(values[i], wanted[i]);
  }
}

void check_call(const AttentionCall& call, const Inputs& inputs) {
  check_equal([&](const Inputs& in) { return scaled_dot_product_attention(in[0], in[1], in[2], call); },
              [&](const Inputs& in) { return plain(in[0], in[1], in[2], call); }, inputs);
}

TEST_CASE("attention: equals all scores at once, in blocks that divide the lengths and that do not") {
  const Inputs inputs{random_leaf({2, 3, 7, 4}, 1), random_leaf({2, 3, 10, 4}, 2), random_leaf({2, 3, 10, 5}, 3)};
  for (const std::int64_t block : {0, 1, 3, 5, 16}) {
    CAPTURE(block);
    check_call({.block = block}, inputs);
    check_call({.causal = true, .block = block}, inputs);
    check_call({.scale = 0.7, .block = block}, inputs);
  }
}

TEST_CASE("attention: causal with more queries than keys") {
  const Inputs inputs{random_leaf({9, 4}, 1), random_leaf({4, 4}, 2), random_leaf({4, 2}, 3)};
  for (const std::int64_t block : {0, 2, 3}) check_call({.causal = true, .block = block}, inputs);
}

TEST_CASE("attention: masks, bool and added, broadcast or not, beside causality") {
  const Inputs inputs{random_leaf({2, 2, 5, 3}, 1), random_leaf({2, 2, 6, 3}, 2), random_leaf({2, 2, 6, 3}, 3)};
  for (const std::int64_t block : {0, 4})
    for (const Shape& shape :
         {Shape{2, 2, 5, 6}, Shape{5, 6}, Shape{2, 1, 1, 6}, Shape{5, 1}, Shape{6}, Shape{1}, Shape{}}) {
      CAPTURE(to_string(shape));
      const Tensor added = random_leaf(shape, 4).detach();
      check_call({.mask = added, .block = block}, inputs);
      check_call({.mask = added, .causal = true, .block = block}, inputs);
      if (shape.empty() || shape.back() == 1) continue;
      const Tensor first = Tensor(Array::arange(shape.back(), DType::i64, test_device())) == 0;
      const Tensor mask = select(first, first, random_mask(shape, 5));  // each query sees the first key
      check_call({.mask = mask, .block = block}, inputs);
      check_call({.mask = mask, .causal = true, .block = block}, inputs);
    }
}

TEST_CASE("attention: a mask that requires a gradient gets it") {
  const Tensor q = random_leaf({2, 4, 3}, 1);
  check_equal([&](const Inputs& in) { return scaled_dot_product_attention(q, q, q, {.mask = in[0], .block = 2}); },
              [&](const Inputs& in) { return plain(q, q, q, {.mask = in[0]}); }, {random_leaf({4, 4}, 2)});
  check_equal([&](const Inputs& in) { return scaled_dot_product_attention(q, q, q, {.mask = in[0], .block = 2}); },
              [&](const Inputs& in) { return plain(q, q, q, {.mask = in[0]}); }, {random_leaf({4}, 3)});
}

TEST_CASE("attention: a query that sees no key gives zeros and no gradient") {
  const Tensor mask(Array::from(std::vector<bool>{false, false, false, true, false, true}, {2, 3}, test_device()));
  const Tensor added = where(mask, Tensor(Array::zeros({2, 3}, DType::f64, test_device())), -kInfinity);
  for (const Tensor& which : {mask, added})
    for (const std::int64_t block : {0, 1, 2}) {
      const Inputs inputs{random_leaf({2, 4}, 1), random_leaf({3, 4}, 2), random_leaf({3, 4}, 3)};
      const auto f = [&](const Inputs& in) {
        return scaled_dot_product_attention(in[0], in[1], in[2], {.mask = which, .block = block});
      };
      for (const Tensor& each : derivatives(f, inputs))
        for (const double value : each.to_vector<double>()) CHECK(std::isfinite(value));
      const Values first = f(inputs)[0].to_vector<double>();
      CHECK(first == Values(4, 0.0));
      backward(sum(f(inputs)));
      CHECK(inputs[0].grad()[0].to_vector<double>() == Values(4, 0.0));
      CHECK(inputs[2].grad()[1].to_vector<double>() == Values(4, 0.0));  // nobody sees key 1
    }
}

TEST_CASE("attention: without keys zeros, without queries or examples nothing") {
  const auto zeros = [](const Shape& shape) { return Tensor(Array::zeros(shape, DType::f32, test_device()), true); };
  CHECK(scaled_dot_product_attention(zeros({2, 3}), zeros({0, 3}), zeros({0, 4})).to_vector<float>() ==
        std::vector<float>(8, 0.0f));
  CHECK(scaled_dot_product_attention(zeros({5, 0, 3}), zeros({5, 2, 3}), zeros({5, 2, 4})).shape() == Shape{5, 0, 4});
  const Tensor none = zeros({0, 2, 3});
  const Tensor y = scaled_dot_product_attention(none, none, none);
  CHECK(y.shape() == Shape{0, 2, 3});
  backward(sum(y));
  CHECK(none.grad().shape() == Shape{0, 2, 3});
}

TEST_CASE("attention: query heads share heads of key and value") {
  const Inputs inputs{random_leaf({2, 6, 5, 3}, 1), random_leaf({2, 2, 4, 3}, 2), random_leaf({2, 2, 4, 3}, 3)};
  const auto repeated = [](const Tensor& x) {
    return reshape(broadcast_to(expand_dims(x, 2), {2, 2, 3, 4, 3}), {2, 6, 4, 3});
  };
  for (const Tensor& mask : {Tensor(), random_leaf({2, 6, 5, 4}, 4).detach(), random_leaf({2, 1, 5, 4}, 5).detach(),
                             random_leaf({4}, 6).detach()})
    for (const std::int64_t block : {0, 2})
      check_equal(
          [&](const Inputs& in) {
            return scaled_dot_product_attention(in[0], in[1], in[2], {.mask = mask, .block = block});
          },
          [&](const Inputs& in) { return plain(in[0], repeated(in[1]), repeated(in[2]), {.mask = mask}); }, inputs);
}

TEST_CASE("attention: one head of keys and values for all, leading axes broadcast") {
  check_call({.block = 3}, {random_leaf({2, 6, 5, 3}, 1), random_leaf({2, 1, 4, 3}, 2), random_leaf({4, 3}, 3)});
}

TEST_CASE("attention: gradients by differences") {
  check_gradients(
      [](const Inputs& in) { return scaled_dot_product_attention(in[0], in[1], in[2], {.causal = true, .block = 2}); },
      {random_leaf({3, 2}, 1), random_leaf({3, 2}, 2), random_leaf({3, 2}, 3)});
}

TEST_CASE("attention: dropout thins the weights by a mask that backward draws again") {
  const Tensor q = random_leaf({2, 6, 3}, 1);
  const auto with_seed = [&](std::uint64_t seed, double p, std::int64_t block) {
    return [=](const Inputs& in) {
      Generator random(seed);
      return scaled_dot_product_attention(in[0], in[1], in[2], {.dropout = p, .random = &random, .block = block});
    };
  };
  for (const std::int64_t block : {0, 4}) {
    check_gradients(with_seed(3, 0.4, block), {q, random_leaf({2, 5, 3}, 2), random_leaf({2, 5, 3}, 3)});
    CHECK(with_seed(3, 1.0, block)({q, q, q}).to_vector<double>() == Values(36, 0.0));
    check_close(with_seed(3, 0.0, block)({q, q, q}), scaled_dot_product_attention(q, q, q));
  }
  // All weights are 1 / 4000, all values 1: what comes out is the share that was kept, over 1 - p.
  const Tensor same = constant(Values(4000, 1.0), {4000, 1});
  const double kept = with_seed(4, 0.25, 0)({same[range(0, 1)], same, same}).item<double>();
  CHECK(kept == doctest::Approx(1).epsilon(0.05));
  CHECK(kept != 1.0);
  CHECK_THROWS_AS(scaled_dot_product_attention(q, q, q, {.dropout = 0.5}), Error);
}

TEST_CASE("attention: 16 bits are rounded once") {
  const Tensor q = random_leaf({2, 33, 8}, 1);
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Tensor narrow(q.array().cast(dtype), true);
    const Tensor same = cast(cast(narrow, DType::f32), DType::f64).detach();
    const Tensor y = scaled_dot_product_attention(narrow, narrow, narrow, {.causal = true, .block = 8});
    CHECK(y.dtype() == dtype);
    check_close(y, scaled_dot_product_attention(same, same, same, {.causal = true}),
                dtype == DType::bf16 ? 0.004 : 0.0005);
    backward(sum(y));
    CHECK(narrow.grad().dtype() == dtype);
  }
}

TEST_CASE("attention: large scores neither overflow nor lose their gradient") {
  const Tensor q = leaf({1000, 0, 0, 1000}, {2, 2});
  const Tensor y = scaled_dot_product_attention(q, q, q, {.block = 1});
  check_close(y, q.detach());
  backward(sum(y));
  for (const double value : q.grad().to_vector<double>()) CHECK(std::isfinite(value));
}

TEST_CASE("attention: memory grows with the length, not with its square") {
  MemoryPool& pool = memory_pool(test_device());
  const auto peak = [&](std::int64_t length) {
    Generator random(1);
    const Tensor q(random.normal({2, length, 8}, DType::f32, test_device()), true);
    synchronize(test_device());
    pool.reset_peak();
    const std::size_t before = pool.statistics().in_use;
    backward(sum(scaled_dot_product_attention(q, q, q, {.causal = true, .block = 64})));
    synchronize(test_device());
    return static_cast<double>(pool.statistics().peak_in_use - before);
  };
  const double once = peak(1024);
  const double fourfold = peak(4096);
  CHECK(fourfold < 5 * once);
  CHECK(fourfold < 2 * 4096 * 4096 * sizeof(float) / 8.0);
}

TEST_CASE("attention: refuses what does not fit") {
  const Tensor q = random_leaf({4, 5, 3}, 1);
  CHECK_THROWS_WITH_AS(scaled_dot_product_attention(q, random_leaf({4, 5, 2}, 1), q),
                       doctest::Contains("scaled_dot_product_attention"), ShapeError);
  CHECK_THROWS_AS(scaled_dot_product_attention(q, q, random_leaf({4, 6, 3}, 1)), ShapeError);
  CHECK_THROWS_AS(scaled_dot_product_attention(q, random_leaf({3, 5, 3}, 1), random_leaf({3, 5, 3}, 1)), ShapeError);
  CHECK_THROWS_AS(scaled_dot_product_attention(q, q, q, {.mask = random_mask({5, 4}, 1)}), ShapeError);
  CHECK_THROWS_WITH_AS(scaled_dot_product_attention(q, q, q, {.mask = random_mask({4}, 1)}),
                       doctest::Contains("the mask [4] should be [..., 5, 5]"), ShapeError);
  CHECK_THROWS_AS(scaled_dot_product_attention(q, q, q, {.mask = index({1}, {1, 1})}), DTypeError);
  CHECK_THROWS_AS(scaled_dot_product_attention(random_leaf({3}, 1), q, q), ShapeError);
}

// --- rotary_embedding

TEST_CASE("rotary_embedding: turns pairs by their position's angle, halves and neighbours") {
  const Tensor x = constant({1, 0, 0, 1, 1, 0, 0, 1}, {2, 4});
  const double a = 3.0;
  const double b = 3.0 / 100;
  // Halves: pairs (0, 2) and (1, 3); rows at positions 2 and 3, angles p and p / 100.
  const Tensor halves = rotary_embedding(x, {.offset = 2});
  check_close(halves[1], constant({std::cos(a), -std::sin(b), std::sin(a), std::cos(b)}, {4}));
  const Tensor neighbours = rotary_embedding(x, {.offset = 2, .interleaved = true});
  check_close(neighbours[1], constant({std::cos(a), std::sin(a), -std::sin(b), std::cos(b)}, {4}));
}

TEST_CASE("rotary_embedding: scores depend on distances alone; offsets continue a sequence; the rest passes") {
  const Tensor x = random_leaf({2, 6, 8}, 1);
  const Tensor row = broadcast_to(x[{all, range(0, 1)}], {2, 6, 8});
  for (const bool interleaved : {false, true}) {
    const Tensor turned = rotary_embedding(row, {.interleaved = interleaved});
    const Tensor scores = matmul(turned, transpose(turned));
    check_close(scores[{all, range(1, 6), range(1, 6)}], scores[{all, range(0, 5), range(0, 5)}]);
    const Tensor whole = rotary_embedding(x, {.interleaved = interleaved});
    const Tensor later = rotary_embedding(x[{all, range(4, 6)}], {.offset = 4, .interleaved = interleaved});
    check_close(later, whole[{all, range(4, 6)}]);
    const Tensor part = rotary_embedding(x, {.features = 4, .interleaved = interleaved});
    check_close(part[{all, all, range(4, 8)}], x[{all, all, range(4, 8)}]);
    check_close(part[{all, all, range(0, 4)}],
                rotary_embedding(x[{all, all, range(0, 4)}], {.interleaved = interleaved}));
  }
}

TEST_CASE("rotary_embedding: gradients, 16 bits, and what it refuses") {
  for (const bool interleaved : {false, true})
    check_gradients(
        [&](const Inputs& in) { return rotary_embedding(in[0], {.features = 4, .interleaved = interleaved}); },
        {random_leaf({2, 3, 5}, 1)});
  const Tensor narrow(random_leaf({300, 4}, 2).array().cast(DType::bf16));
  CHECK(rotary_embedding(narrow).dtype() == DType::bf16);
  check_close(rotary_embedding(narrow), rotary_embedding(cast(narrow, DType::f64)), 0.005);
  CHECK_THROWS_AS(rotary_embedding(random_leaf({2, 3}, 1)), ShapeError);
  CHECK_THROWS_AS(rotary_embedding(random_leaf({2, 4}, 1), {.features = 6}), ShapeError);
  CHECK_THROWS_AS(rotary_embedding(random_leaf({4}, 1)), ShapeError);
}

TEST_CASE("attention: dropout's gradient where value has leading axes that query and key lack") {
  for (const bool by_mask : {false, true}) {
    const AttentionCall call{.mask = by_mask ? random_leaf({3, 1, 5, 5}, 4).detach() : Tensor(), .block = 2};
    const auto dropped = [&](const Inputs& in) {
      Generator random(5);
      AttentionCall drawn = call;
      drawn.dropout = 0.5;
      drawn.random = &random;
      return scaled_dot_product_attention(in[0], in[1], in[2], drawn);
    };
    check_gradients(dropped, {random_leaf({2, 5, 3}, 1), random_leaf({2, 5, 3}, 2), random_leaf({3, 2, 5, 2}, 3)});
    check_gradients(dropped, {random_leaf({1, 5, 3}, 1), random_leaf({1, 5, 3}, 2), random_leaf({2, 5, 2}, 3)});
  }
}

TEST_CASE("attention: without keys the mask's leading axes count, and gradients are zeros") {
  const Tensor q = random_leaf({2, 3}, 1), k = random_leaf({0, 3}, 2), v = random_leaf({0, 4}, 3);
  const Tensor mask = random_leaf({5, 2, 0}, 4);
  for (const bool causal : {false, true}) {
    const Tensor y = scaled_dot_product_attention(q, k, v, {.mask = mask, .causal = causal});
    CHECK(y.shape() == Shape{5, 2, 4});
    CHECK(y.to_vector<double>() == Values(40, 0));
    const auto gradients = grad(sum(y), Inputs{q, k, v, mask});
    CHECK(gradients[0].to_vector<double>() == Values(6, 0));
    CHECK(gradients[1].shape() == k.shape());
    CHECK(gradients[2].shape() == v.shape());
    CHECK(gradients[3].shape() == mask.shape());
  }
  const auto of_no_query = grad(sum(scaled_dot_product_attention(random_leaf({0, 3}, 1), q, q)), Inputs{q});
  CHECK(of_no_query[0].to_vector<double>() == Values(6, 0));
}

TEST_CASE("attention: a mask is of one head or of all query heads") {
  const Tensor q = random_leaf({4, 5, 3}, 1), k = random_leaf({2, 5, 3}, 2);
  for (const std::int64_t heads : {2, 8}) {
    const AttentionCall call{.mask = random_mask({heads, 5, 5}, 3)};
    CHECK_THROWS_WITH_AS((void)scaled_dot_product_attention(q, k, k, call), doctest::Contains("heads"), ShapeError);
  }
  for (const std::int64_t heads : {1, 4})
    CHECK(scaled_dot_product_attention(q, k, k, {.mask = random_mask({heads, 5, 5}, 3)}).shape() == q.shape());
}

}  // namespace
}  // namespace tutti
