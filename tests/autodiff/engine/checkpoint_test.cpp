// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/checkpoint.h>

#include <tutti/autodiff/autocast.h>
#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/tests/autodiff/leaves.h>

#include <doctest/doctest.h>

namespace tutti {
namespace {

/// Gradients of x, w and v by `loss`, which is called once.
template <class Loss> std::vector<Values> gradients_of(std::vector<Tensor> leaves, Loss loss) {
  for (Tensor& each : leaves) each.zero_grad();
  backward(loss());
  std::vector<Values> gradients;
  for (const Tensor& each : leaves)
    gradients.push_back(each.grad().defined() ? each.grad().to_vector<double>() : Values());
  return gradients;
}

// Contributions are added in another order.
void check_same(const std::vector<Values>& a, const std::vector<Values>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t leaf = 0; leaf < a.size(); ++leaf) {
    REQUIRE(a[leaf].size() == b[leaf].size());
    for (std::size_t i = 0; i < a[leaf].size(); ++i) CHECK(a[leaf][i] == doctest::Approx(b[leaf][i]).epsilon(1e-12));
  }
}

TEST_CASE("checkpoint: gradients of inputs and of what the function refers to") {
  const Tensor x = spread({2, 3}, 1);
  const Tensor w = spread({3, 3}, 2);
  const Tensor v = spread({3}, 3);
  int runs = 0;
  const auto layer = [&](const Tensor& in) {
    ++runs;
    return tanh(matmul(in, w) + v) * v;
  };
  const auto plain = gradients_of({x, w, v}, [&] { return sum(layer(layer(x)) * w[0]); });
  runs = 0;
  const auto kept = gradients_of({x, w, v}, [&] { return sum(checkpoint(layer, checkpoint(layer, x)) * w[0]); });
  check_same(kept, plain);
  CHECK(runs == 4);
}

TEST_CASE("checkpoint: several inputs, one twice, constants, inputs that it also refers to") {
  const Tensor x = spread({3}, 1);
  const Tensor y = spread({3}, 2);
  const Tensor c = constant({1, 2, 3}, {3});
  const auto f = [&](std::span<const Tensor> in) { return in[0] * in[1] * exp(in[2]) * in[3] + y; };
  const auto call = [&](bool keep) {
    const Tensor between = x * 2;
    const std::vector<Tensor> inputs = {between, between, y, c};
    return sum(keep ? checkpoint(f, inputs) : f(inputs));
  };
  check_same(gradients_of({x, y}, [&] { return call(true); }), gradients_of({x, y}, [&] { return call(false); }));
}

TEST_CASE("checkpoint: a recorded tensor that the function refers to passes its gradient on, once") {
  const Tensor x = spread({3}, 1);
  const Tensor w = spread({3}, 2);
  const auto call = [&](bool keep) {
    const Tensor scale = exp(w);  // reached from outside and from inside
    const auto f = [&, scale](const Tensor& in) { return in * scale * w; };
    return sum((keep ? checkpoint(f, x) : f(x)) * scale);
  };
  check_same(gradients_of({x, w}, [&] { return call(true); }), gradients_of({x, w}, [&] { return call(false); }));
}

TEST_CASE("checkpoint: keeps its inputs alone") {
  const auto in_use = [] {
    synchronize(test_device());
    return memory_pool(test_device()).statistics().in_use;
  };
  const Tensor x = leaf(Values(1024, 0.5));
  const auto deep = [](const Tensor& in) {
    Tensor y = in;
    for (int i = 0; i < 8; ++i) y = exp(y * 0.1);
    return y;
  };
  deep(x);  // a CUDA device keeps the literal 0.1 as an array from now on
  const std::size_t before = in_use();
  {
    const Tensor y = checkpoint(deep, x);
    CHECK(in_use() == before + 1024 * sizeof(double));
    const Tensor z = deep(x);
    CHECK(in_use() >= before + 9 * 1024 * sizeof(double));
  }
  CHECK(in_use() == before);
}

TEST_CASE("checkpoint: random numbers are repeated, and drawn no second time") {
  const Tensor x = spread({64}, 1);
  const auto run = [&](bool keep) {
    Generator random(7);
    random.next_u64();
    const auto f = [&](const Tensor& in) {
      Generator own = random.split(random.next_u64());
      const Tensor noise(random.normal({64}, DType::f64, test_device()));
      return in * noise * Tensor(own.uniform({64}, DType::f64, test_device())) * static_cast<double>(random.below(5));
    };
    const auto g = [&](const Tensor& in) { return keep ? checkpoint(f, f(in)) : f(f(in)); };
    auto gradients = gradients_of({x}, [&] { return sum(keep ? checkpoint(g, x) : g(x)); });
    gradients.push_back({static_cast<double>(random.next_u64() >> 11)});
    return gradients;
  };
  check_same(run(true), run(false));
}

TEST_CASE("checkpoint: nests") {
  const Tensor x = spread({3}, 1);
  const Tensor w = spread({3}, 2);
  const auto inner = [&](const Tensor& in) { return tanh(in * w); };
  const auto outer = [&](const Tensor& in) { return checkpoint(inner, checkpoint(inner, in) * w) + in; };
  const auto plain = [&](const Tensor& in) { return inner(inner(in) * w) + in; };
  check_same(gradients_of({x, w}, [&] { return sum(checkpoint(outer, x)); }),
             gradients_of({x, w}, [&] { return sum(plain(x)); }));
}

TEST_CASE("checkpoint: first and second derivatives") {
  const auto f = [](const std::vector<Tensor>& in) {
    const Tensor w = in[1];
    return checkpoint([w](const Tensor& x) { return tanh(x * w) * x; }, in[0]);
  };
  check_gradients(f, {spread({3}, 1), spread({3}, 2)});
}

TEST_CASE("checkpoint: retain_graph, grad() and unused inputs") {
  const Tensor x = leaf({1, 2});
  const Tensor unused = leaf({1, 2});
  const Tensor y = sum(checkpoint([](std::span<const Tensor> in) { return in[0] * in[0]; }, {x, unused}));
  backward(y, {.retain_graph = true});
  const Tensor inputs[] = {x, unused};
  const auto gradients = grad(y, inputs, {.retain_graph = true, .allow_unused = true});
  CHECK(gradients[0].to_vector<double>() == Values{2, 4});
  CHECK_FALSE(gradients[1].defined());
  backward(y);
  CHECK(x.grad().to_vector<double>() == Values{4, 8});
  CHECK_THROWS_WITH_AS(backward(y), doctest::Contains("checkpoint saved was released"), AutodiffError);
}

TEST_CASE("checkpoint: a function that passes its input on, or something that it refers to") {
  const Tensor x = leaf({1, 2});
  const Tensor w = leaf({3, 4});
  backward(sum(checkpoint([](const Tensor& in) { return in; }, x)));
  backward(sum(checkpoint([&](const Tensor&) { return w; }, x)));
  CHECK(x.grad().to_vector<double>() == Values{1, 1});
  CHECK(w.grad().to_vector<double>() == Values{1, 1});
}

TEST_CASE("checkpoint: without gradients it is a call") {
  const Tensor c = constant({1, 2}, {2});
  const auto twice = [](const Tensor& in) { return in * 2; };
  CHECK_FALSE(checkpoint(twice, c).requires_grad());
  const NoGrad no_grad;
  CHECK(checkpoint(twice, leaf({1, 2})).to_vector<double>() == Values{2, 4});
}

TEST_CASE("checkpoint: runs again under the forward's Autocast") {
  const Tensor x(spread({4, 4}, 1).array().cast(DType::f32), true);
  const Tensor w(spread({4, 4}, 2).array().cast(DType::f32), true);
  const auto f = [&](const Tensor& in) { return matmul(matmul(in, w), w); };
  const auto call = [&](bool keep) {
    Tensor(w).zero_grad();
    Tensor y;
    {
      const Autocast guard(DType::bf16);
      y = sum(matmul(keep ? checkpoint(f, x) : f(x), w));
    }
    backward(y);
    return w.grad().to_vector<float>();
  };
  const std::vector<float> kept = call(true);
  const std::vector<float> plain = call(false);
  for (std::size_t i = 0; i < kept.size(); ++i) CHECK(kept[i] == doctest::Approx(plain[i]).epsilon(0.05));
}

TEST_CASE("checkpoint: links that share a weight under Autocast give the bits of the plain run") {
  const Tensor x(spread({3, 5}, 1).array().cast(DType::f32), true);
  const Tensor w(spread({5, 5}, 2).array().cast(DType::f32), true);
  const auto link = [&](const Tensor& in) { return tanh(matmul(in, w)); };
  for (const DType narrow : {DType::bf16, DType::f16}) {
    const auto call = [&](bool keep) {
      Tensor(x).zero_grad();
      Tensor(w).zero_grad();
      Tensor y = x;
      {
        const Autocast guard(narrow);
        for (int i = 0; i < 6; ++i) y = keep ? checkpoint(link, y) : link(y);
        y = sum(y);
      }
      backward(y);
      std::vector<float> all = w.grad().to_vector<float>();
      for (const float each : x.grad().to_vector<float>()) all.push_back(each);
      return all;
    };
    CHECK(call(true) == call(false));
  }
}

TEST_CASE("checkpoint: what changed between its runs is noticed") {
  Tensor x = leaf({1, 2});
  Tensor w = leaf({3, 4});
  const auto f = [&](const Tensor& in) { return in * w; };
  Tensor y = sum(checkpoint(f, x));
  {
    const NoGrad no_grad;
    w.add_(1);
  }
  CHECK_THROWS_WITH_AS(backward(y), doctest::Contains("checkpoint saved a value of shape [2]"), AutodiffError);
  y = sum(checkpoint(f, x));
  w.set_array(w.array().copy());
  CHECK_THROWS_WITH_AS(backward(y), doctest::Contains("was given another value"), AutodiffError);
  int runs = 0;
  y = sum(checkpoint([&](const Tensor& in) { return ++runs == 1 ? in * 2 : in.slice(0, 0, 1); }, x));
  CHECK_THROWS_WITH_AS(backward(y), doctest::Contains("gave [2] f64 in forward and [1] f64 in backward"),
                       AutodiffError);
  y = sum(checkpoint([&](const Tensor& in) { return ++runs == 3 ? in * 2 : in * w; }, x));
  CHECK_THROWS_WITH_AS(backward(y), doctest::Contains("reads a leaf in backward"), AutodiffError);
  Generator random(1);
  runs = 0;
  y = sum(checkpoint(
      [&](const Tensor& in) { return ++runs == 1 ? in : in * Tensor(random.uniform({2}, DType::f64, test_device())); },
      x));
  CHECK_THROWS_WITH_AS(backward(y), doctest::Contains("draws other random numbers: draw 1 of 0"), Error);
}

TEST_CASE("checkpoint: a leaf with sparse gradients is refused by name") {
  Tensor table = leaf({1, 2, 3, 4}, {2, 2});
  table.set_sparse_grad(true);
  const Tensor places = index({1}, {1});
  const Tensor y = sum(checkpoint([&](const Tensor& in) { return embedding(table, places) * in; }, leaf({1, 2})));
  CHECK_THROWS_WITH_AS(backward(y), doctest::Contains("checkpoint gives it a dense one"), AutodiffError);
}

TEST_CASE("checkpoint: a constant that f reads anywhere may not be written before backward") {
  const Tensor x = leaf({1, 2});
  const Tensor w = leaf({3, 4});
  const Tensor b = constant({1, 1}, {2});
  const auto f = [&](const Tensor& in) { return tanh(in * w) * b; };
  const auto outer = [&](const Tensor& in) { return checkpoint(f, in) * 2; };
  const auto detached = [&](const Tensor& in) { return in * w.detach(); };
  for (const auto& function : {std::function<Tensor(const Tensor&)>(f), std::function<Tensor(const Tensor&)>(outer)}) {
    const Tensor y = sum(checkpoint(function, x));
    b.fill_(100);
    CHECK_THROWS_WITH_AS(backward(y), doctest::Contains("checkpoint reads a tensor of 16 bytes, and"), AutodiffError);
  }
  const Tensor y = sum(checkpoint(detached, x));
  {
    const NoGrad no_grad;
    w.fill_(1);
  }
  CHECK_THROWS_WITH_AS(backward(y), doctest::Contains("has written to it since"), AutodiffError);
}

TEST_CASE("checkpoint: what f writes itself is its state, and results may be written") {
  const Tensor x = leaf({1, 2});
  const Tensor count = constant({0}, {1});
  const auto f = [&](const Tensor& in) {
    count.add_(1);
    return (in * 2).reshape({1, 2}).reshape({2});
  };
  const Tensor y = checkpoint(f, checkpoint(f, x));
  y.detach().fill_(0);
  backward(sum(y));
  CHECK(x.grad().to_vector<double>() == Values{4, 4});
  CHECK(count.to_vector<double>() == Values{4});
}

TEST_CASE("checkpoint: an argument may be given another value, unless f refers to it too") {
  Tensor x = leaf({1, 2});
  Tensor y = sum(checkpoint([](const Tensor& in) { return in * in; }, x));
  x.set_array(constant({10, 20}, {2}).array());
  backward(y);
  CHECK(x.grad().to_vector<double>() == Values{2, 4});
  y = sum(checkpoint([&](const Tensor& in) { return in * x; }, x));
  x.set_array(constant({1, 2}, {2}).array());
  CHECK_THROWS_WITH_AS(backward(y), doctest::Contains("was given another value"), AutodiffError);
}

TEST_CASE("checkpoint: arguments that are undefined, and literals") {
  const Tensor x(Array::from(std::vector<float>{1, 2}, {2}, test_device()), true);
  const auto f = [](std::span<const Tensor> in) { return (in[1].defined() ? in[0] + in[1] : in[0]) * in[2]; };
  const Tensor y = checkpoint(f, {x.cast(DType::bf16), Tensor(), Tensor(3.0)});
  CHECK(y.dtype() == DType::bf16);
  backward(sum(y));
  CHECK(x.grad().to_vector<float>() == std::vector<float>{3, 3});
}

TEST_CASE("checkpoint: what is no function, gives nothing, or differentiates is refused by name") {
  const Tensor x = leaf({1, 2});
  CHECK_THROWS_WITH_AS(checkpoint(std::function<Tensor(const Tensor&)>(), x),
                       doctest::Contains("[checkpoint] there is no function"), AutodiffError);
  CHECK_THROWS_WITH_AS(checkpoint([](const Tensor&) { return Tensor(); }, x),
                       doctest::Contains("[checkpoint] the function returned an undefined tensor"), AutodiffError);
  const auto inner = [](const Tensor& in) { return grad(sum(in * in), {in})[0]; };
  CHECK_THROWS_WITH_AS(checkpoint(inner, x), doctest::Contains("[grad] not in the function of a checkpoint"),
                       AutodiffError);
}

TEST_CASE("checkpoint: f registers no hooks, which would be called twice") {
  const Tensor x = leaf({1, 2});
  const auto f = [](const Tensor& in) {
    in.register_hook([](const Tensor&) {});
    return in * 2;
  };
  CHECK_THROWS_WITH_AS(checkpoint(f, x), doctest::Contains("not in the function of a checkpoint"), AutodiffError);
  int calls = 0;
  x.register_hook([&](const Tensor&) { ++calls; });
  backward(sum(checkpoint([](const Tensor& in) { return in * 2; }, x)));
  CHECK(calls == 1);
}

}  // namespace
}  // namespace tutti
