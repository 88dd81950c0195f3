// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/profile.h>

#include <tutti/backend/capture/capture.h>
#include <tutti/backend/cpu/cpu_backend.h>
#include <tutti/backend/custom_kernel.h>
#include <tutti/backend/error.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/registry.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

using namespace tutti;

namespace {

Array ones(const Shape& shape, DType dtype = DType::f32) { return Array::full(shape, 1, dtype, test_device()); }

/// The kernels that the work runs.
std::vector<ProfiledKernel> kernels_of(const std::function<void()>& work) {
  Profile profile;
  {
    const ProfiledScope on(profile);
    work();
  }
  const auto& runs = profile.runs();
  REQUIRE(runs.size() == 1);
  return runs[0].kernels;
}

ProfiledKernel kernel_of(const std::function<void()>& work) {
  const auto kernels = kernels_of(work);
  REQUIRE(kernels.size() == 1);
  return kernels[0];
}

std::vector<std::string> names_of(const std::vector<ProfiledKernel>& kernels) {
  std::vector<std::string> names;
  for (const ProfiledKernel& each : kernels) names.push_back(each.name);
  return names;
}

using Operands = std::vector<ProfiledKernel::Operand>;

}  // namespace

TEST_CASE("profile: a kernel is noted with its operands, bytes and operations") {
  const Array lhs = ones({5, 3});
  const Array rhs = ones({3, 7});
  const ProfiledKernel product = kernel_of([&] { (void)matmul(lhs, rhs); });
  CHECK(product.name == "matmul");
  CHECK(product.device == test_device());
  CHECK(product.operands == Operands{{DType::f32, {5, 3}}, {DType::f32, {3, 7}}, {DType::f32, {5, 7}}});
  CHECK(product.bytes_read == 4 * (15 + 21));
  CHECK(product.bytes_written == 4 * 35);
  CHECK(product.flops == 2 * 5 * 3 * 7);
  CHECK(product.begin.count() >= 0);
  CHECK(product.duration.count() >= 0);
  CHECK(product.operation.empty());
  CHECK_FALSE(product.backward);
}

TEST_CASE("profile: repeated elements count once, what is changed twice") {
  const Array x = ones({4, 6});
  const Array row = ones({6});
  const ProfiledKernel sum = kernel_of([&] { (void)apply(elementwise::Add{}, x, row); });
  CHECK(sum.name == "elementwise add");
  CHECK(sum.operands[1].shape == Shape{4, 6});
  CHECK(sum.bytes_read == 4 * (24 + 6));
  CHECK(sum.bytes_written == 4 * 24);
  CHECK(sum.flops == 0);

  const Array windows = as_strided(ones({6}), {5, 2}, {1, 1}, 0);
  CHECK(kernel_of([&] { (void)windows.copy(); }).bytes_read == 4 * 6);

  const Array batch = ones({2, 5, 3});
  const Array shared = ones({3, 7});
  const ProfiledKernel products = kernel_of([&] { (void)matmul(batch, shared); });
  CHECK(products.bytes_read == 4 * (2 * 5 * 3 + 3 * 7));
  CHECK(products.flops == 2 * 2 * 5 * 3 * 7);
}

TEST_CASE("profile: rows that are gathered and added count, not the whole table") {
  const Array table = ones({1000, 8});
  const Array index = Array::full({3, 8}, 5, DType::i64, test_device());
  const ProfiledKernel gathered = kernel_of([&] { (void)gather(table, 0, index); });
  CHECK(gathered.bytes_read == 4 * 24 + 8 * 24);
  CHECK(gathered.bytes_written == 4 * 24);
  const auto added = kernels_of([&] { (void)scatter_add({1000, 8}, ones({3, 8}), 0, index); });
  CHECK(names_of(added) == std::vector<std::string>{"fill", "fill", "scatter add"});
  CHECK(added.back().bytes_read == 4 * 24 + 8 * 24 + 4 * 24);
  CHECK(added.back().bytes_written == 4 * 24);
}

TEST_CASE("profile: convolutions and their gradients have the same operations") {
  const Conv2dGeometry geometry{.padding = {1, 1}, .groups = 2};
  const Array input = ones({2, 4, 5, 5});
  const Array weight = ones({6, 2, 3, 3});
  Array output;
  const ProfiledKernel forward = kernel_of([&] { output = conv2d(geometry, input, weight); });
  CHECK(forward.name == "conv2d");
  CHECK(forward.flops == 2.0 * (2 * 6 * 5 * 5) * (2 * 3 * 3));
  const auto backward = kernels_of([&] {
    (void)conv2d_input_gradient(geometry, output, weight, input.shape());
    (void)conv2d_weight_gradient(geometry, output, input, weight.shape());
  });
  CHECK(names_of(backward) == std::vector<std::string>{"conv2d_input_gradient", "conv2d_weight_gradient"});
  for (const ProfiledKernel& each : backward) CHECK(each.flops == forward.flops);
}

TEST_CASE("profile: of attention the keys that are seen count" * doctest::test_suite("cpu")) {
  const Array query = Array::zeros({2, 5, 3}, DType::f32, cpu());
  const Array key = Array::zeros({2, 4, 3}, DType::f32, cpu());
  const Array value = Array::zeros({2, 4, 7}, DType::f32, cpu());
  CHECK(kernel_of([&] { (void)attention({1, false}, {query, key, value, {}}); }).flops == 2 * 2 * (5 * 4) * (3 + 7));
  const int pairs = 1 + 2 + 3 + 4 + 4;
  const ProfiledKernel causal = kernel_of([&] { (void)attention({1, true}, {query, key, value, {}}); });
  CHECK(causal.name == "attention");
  CHECK(causal.flops == 2 * 2 * pairs * (3 + 7));
}

TEST_CASE("profile: names say which operation a kernel runs") {
  const Array x = ones({2, 3});
  const std::int64_t axes[] = {1};
  const auto names = names_of(kernels_of([&] {
    (void)reduce(Reduction::max, x, axes);
    (void)softmax(SoftmaxKind::log_softmax, x, 1);
    (void)linear(x, x, {}, LinearActivation::gelu);
    (void)apply(elementwise::Gelu{}, x);
    const Array inputs[] = {x, x};
    (void)apply_gradient(elementwise::Gelu{}, ElementwiseCall::Part::gradient, inputs);
    (void)Generator(1).normal({3}, DType::f32, test_device());
    (void)x.to_vector<float>();
    (void)Array::from(std::vector<float>{1}, {1}, test_device());
  }));
  CHECK(names == std::vector<std::string>{"reduce max", "softmax log", "linear gelu", "elementwise gelu",
                                          "elementwise gelu gradient", "random normal", "copy_to_host",
                                          "copy_from_host"});
}

TEST_CASE("profile: results are the same, and nothing is seen before and after") {
  Profile profile;
  const Array x = ones({3});
  std::vector<float> values;
  for (int i = 0; i < 2; ++i) {
    const Array before = apply(elementwise::Add{}, x, x);
    const ProfiledScope on(profile);
    values = apply(elementwise::Multiply{}, before, before).to_vector<float>();
  }
  (void)apply(elementwise::Add{}, x, x);
  CHECK(values == std::vector<float>(3, 4.0F));
  CHECK(&backend_for(test_device()) == &registered_backend(test_device().kind));
  const auto& runs = profile.runs();
  REQUIRE(runs.size() == 2);
  for (const ProfiledRun& run : runs) {
    CHECK(names_of(run.kernels) == std::vector<std::string>{"elementwise multiply", "copy_to_host"});
    std::chrono::nanoseconds kernels{0};
    auto end = std::chrono::nanoseconds{0};
    for (const ProfiledKernel& each : run.kernels) {
      CHECK(each.begin >= end);
      end = each.begin + each.duration;
      kernels += each.duration;
    }
    CHECK(kernels <= run.duration);
  }
}

TEST_CASE("profile: a kernel that throws leaves the others and ends the scope") {
  Profile profile;
  const Array x = ones({3});
  const Array index = Array::full({3}, 7, DType::i64, test_device());
  const auto run = [&] {
    const ProfiledScope on(profile);
    (void)x.copy();
    (void)gather(x, 0, index);
    FAIL("the error comes where the kernel was queued");
  };
  CHECK_THROWS_WITH_AS(run(), doctest::Contains("out of range"), ShapeError);
  CHECK(&backend_for(test_device()) == &registered_backend(test_device().kind));
  CHECK(names_of(profile.runs().at(0).kernels) == std::vector<std::string>{"copy"});
  CHECK(kernel_of([&] { (void)x.copy(); }).name == "copy");
}

TEST_CASE("profile: bad use is refused") {
  Profile profile;
  Profile other;
  {
    const ProfiledScope on(profile);
    CHECK_THROWS_WITH_AS([&] { const ProfiledScope inner(other); }(), doctest::Contains("do not nest"), Error);
    CHECK_THROWS_WITH_AS((void)profile.table(), doctest::Contains("ask when it has ended"), Error);
    CHECK(other.runs().empty());
    CHECK(&backend_for(test_device()) != &registered_backend(test_device().kind));
  }
  CHECK(profile.runs().size() == 1);
  CHECK(other.table() == "nothing was profiled\n");
  CHECK_THROWS_WITH_AS(profile.write_trace("/nonexistent/trace.json"), doctest::Contains("/nonexistent"), DataError);
}

TEST_CASE("profile: threads have scopes of their own") {
  Profile profile;
  const Array x = ones({3});
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 2; ++thread)
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) {
        const ProfiledScope on(profile);
        (void)apply(elementwise::Add{}, x, x);
      }
    });
  for (std::thread& each : threads) each.join();
  std::vector<int> runs(2);
  for (const ProfiledRun& run : profile.runs()) {
    CHECK(run.kernels.size() == 1);
    ++runs.at(run.thread);
  }
  CHECK(runs == std::vector<int>{10, 10});
}

TEST_CASE("profile: devices of every kind are seen" * doctest::test_suite("cpu")) {
  const Device other{register_backend("profiled", std::make_unique<CpuBackend>()), 1};
  const Array x = ones({3});
  const auto kernels = kernels_of([&] {
    const Array there = x.to(other);
    (void)apply(elementwise::Add{}, there, there);
    (void)apply(elementwise::Add{}, x, x);
  });
  CHECK(names_of(kernels) == std::vector<std::string>{"copy_from_host", "elementwise add", "elementwise add"});
  CHECK(kernels.at(1).device == other);
  CHECK(kernels.at(2).device == cpu());
}

TEST_CASE("profile: what is captured is seen, and each kernel of its replays") {
  const Array x = ones({4});
  const Array result = ones({4});
  const std::vector<std::string> names{"elementwise add", "elementwise multiply", "copy"};
  const auto work = [&] {
    Array(result).copy_from(apply(elementwise::Multiply{}, x, apply(elementwise::Add{}, x, x)));
  };
  Capture capture(test_device());
  CHECK(names_of(kernels_of([&] {
          const CaptureScope scope(capture);
          work();
        })) == names);
  const auto replay = [&] {
    capture.begin_replay();
    capture.run(0, capture.tape().size());
  };
  replay();
  CHECK(names_of(kernels_of(replay)) == names);
  CHECK(result.to_vector<float>() == std::vector<float>(4, 2.0F));

  Capture around(test_device());
  const CaptureScope scope(around);
  CHECK(names_of(kernels_of(work)) == names);
  CHECK(around.tape().size() == 3);
}

TEST_CASE("profile: kernels of programs are named" * doctest::test_suite("cpu")) {
  const CustomKernel threes(
      "threes", {.cpu = [](const CustomCall& call, const CpuThreads&) { *call.outputs[0].data<float>() = 3; }});
  const Array inputs[] = {ones({2})};
  const ProfiledKernel noted = kernel_of([&] { (void)run_kernel(threes, inputs, {1}, DType::f32); });
  CHECK(noted.name == "custom threes");
  CHECK(noted.bytes_read == 8);
  CHECK(noted.bytes_written == 4);
}

namespace {

using std::chrono::microseconds;

ProfiledKernel ran(const char* name, microseconds duration, double bytes, double flops, Operands operands = {}) {
  ProfiledKernel made;
  made.name = name;
  made.device = cpu();
  made.operands = std::move(operands);
  made.duration = duration;
  made.bytes_read = bytes;
  made.flops = flops;
  return made;
}

/// Two steps of 5 ms: 3 ms and 1 ms in products, of 2 GFLOP/s, and 500 us of copies.
std::vector<ProfiledRun> two_steps() {
  ProfiledRun run;
  run.duration = microseconds(5000);
  run.kernels = {ran("matmul", microseconds(3000), 3e3, 6e6, {{DType::f32, {2, 3}}, {DType::f32, {3, 4}}}),
                 ran("matmul", microseconds(1000), 1e3, 2e6, {{DType::f32, {2, 3}}, {DType::bf16, {3, 4}}}),
                 ran("copy", microseconds(500), 1e6, 0)};
  run.kernels[1].operation = "linear";
  run.kernels[2].operation = "linear";
  run.kernels[2].backward = true;
  return {run, run};
}

}  // namespace

TEST_CASE("profile: a table adds up to the whole" * doctest::test_suite("cpu")) {
  CHECK(profile_table(two_steps()) ==
        "mean of 2 runs\n"
        "kernel           calls     ms    share  GFLOP/s  GB/s  limit\n"
        "matmul               2  4.000   80.0 %      2.0   0.0\n"
        "copy                 1  0.500   10.0 %            2.0\n"
        "between kernels         0.500   10.0 %\n"
        "whole                3  5.000  100.0 %      1.6   0.2\n");
}

TEST_CASE("profile: short runs are told in microseconds" * doctest::test_suite("cpu")) {
  ProfiledRun run;
  run.duration = microseconds(30);
  run.kernels = {ran("copy", microseconds(12), 0, 0)};
  CHECK(profile_table({run}) ==
        "mean of 1 run\n"
        "kernel           calls      us    share  GFLOP/s  GB/s  limit\n"
        "copy                 1  12.000   40.0 %\n"
        "between kernels         18.000   60.0 %\n"
        "whole                1  30.000  100.0 %\n");
}

TEST_CASE("profile: rows are of shapes or operations, beside limits" * doctest::test_suite("cpu")) {
  ProcessorLimits limits;
  limits.flops = 8e9;
  limits.bf16_flops = 20e9;
  limits.bf16_products = "AMX tiles";
  limits.copies = {{1 << 20, 4e9}};
  CHECK(profile_table(two_steps(), {.rows = ProfileRows::shapes, .limits = limits}) ==
        "mean of 2 runs\n"
        "kernel                           calls     ms    share  GFLOP/s  GB/s            limit\n"
        "matmul  f32 [2, 3], [3, 4]           1  3.000   60.0 %      2.0   0.0  25 % of GFLOP/s\n"
        "matmul  f32 [2, 3], bf16 [3, 4]      1  1.000   20.0 %      2.0   0.0  10 % of GFLOP/s\n"
        "copy                                 1  0.500   10.0 %            2.0  50 % of GB/s\n"
        "between kernels                         0.500   10.0 %\n"
        "whole                                3  5.000  100.0 %      1.6   0.2  22 % of GFLOP/s\n"
        "limits: 8.0 GFLOP/s in f32 multiply-adds, 20.0 in products of bf16 (AMX tiles); copies, GB/s: 4.0 (1 MiB)\n");
  CHECK(profile_table(two_steps(), {.rows = ProfileRows::operations}) ==
        "mean of 2 runs\n"
        "operation         kernels     ms    share  GFLOP/s  GB/s  limit\n"
        "no operation            1  3.000   60.0 %      2.0   0.0\n"
        "linear                  1  1.000   20.0 %      2.0   0.0\n"
        "linear, backward        1  0.500   10.0 %            2.0\n"
        "between kernels            0.500   10.0 %\n"
        "whole                   3  5.000  100.0 %      1.6   0.2\n");
}

TEST_CASE("profile: a trace has a span for each kernel, within its run's") {
  Profile profile;
  const Array x = ones({3});
  {
    const ProfiledScope on(profile);
    (void)matmul(ones({2, 3}), ones({3, 2}));
  }
  const std::string file_name = "tutti_profile_" + std::to_string(::getpid());
  const std::string path = (std::filesystem::temp_directory_path() / file_name).string();
  profile.write_trace(path);
  std::ifstream file(path);
  const nlohmann::json trace = nlohmann::json::parse(file);
  std::filesystem::remove(path);
  std::vector<std::string> names;
  for (const auto& event : trace["traceEvents"]) {
    names.push_back(event["name"]);
    if (event["ph"] != "X") continue;
    CHECK(event["ts"].get<double>() >= 0.0);
    CHECK(event["dur"].get<double>() >= 0.0);
  }
  CHECK(names == std::vector<std::string>{"thread_name", "profiled", "fill", "fill", "matmul"});
  const auto& product = trace["traceEvents"].back()["args"];
  CHECK(product["operands"] == "f32 [2, 3], [3, 2], [2, 2]");
  CHECK(product["flops"] == 24);
  CHECK(product["bytes read"] == 48);
  CHECK(product["device"] == to_string(test_device()));
}
