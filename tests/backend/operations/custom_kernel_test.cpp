// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/custom_kernel.h>

#include <tutti/backend/capture/capture.h>
#include <tutti/backend/cpu/cpu_backend.h>
#include <tutti/backend/cpu_threads.h>
#include <tutti/backend/elementwise/element_run.h>
#include <tutti/backend/error.h>
#include <tutti/backend/forwarding_backend.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/registry.h>
#include <tutti/tests/backend/counting_backend.h>
#include <tutti/tests/backend/devices/recording_backend.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

TEST_SUITE_BEGIN("cpu");

namespace tutti {
namespace {

using Numbers = std::vector<float>;

/// x scale + shift, and its square: f32, of any strides.
const CustomKernel& scaled() {
  static const CustomKernel& kernel =
      *new CustomKernel("scaled", {.cpu = [](const CustomCall& call, const CpuThreads& threads) {
                          const double scale = call.parameters[0];
                          const double shift = call.parameters[1];
                          threads.for_each_run(call.outputs[0], call.inputs, [=](const ElementRun& run) {
                            for (std::int64_t i = 0; i < run.count; ++i)
                              run.to<float>()[i] = static_cast<float>(run.at<float>(0, i) * scale + shift);
                          });
                          if (call.outputs.size() == 1) return;
                          threads.parallel_for(call.outputs[1].size(), 16, [&](std::int64_t begin, std::int64_t end) {
                            const float* from = call.outputs[0].data<float>();
                            for (std::int64_t i = begin; i < end; ++i)
                              call.outputs[1].data<float>()[i] = from[i] * from[i];
                          });
                        }});
  return kernel;
}

Array x_of(Numbers values, Device device = cpu()) {
  const auto count = static_cast<std::int64_t>(values.size());
  return Array::from(values, {count}, device);
}
Array one(const CustomKernel& kernel, const Array& x) { return run_kernel(kernel, {&x, 1}, x.shape(), x.dtype()); }
Numbers values(const Array& array) { return array.to_vector<float>(); }

std::string text_of(const auto& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

using testing::CountingBackend;

}  // namespace

TEST_CASE("custom kernel: reads strided inputs, takes parameters, writes several outputs") {
  const Array x = Array::from(Numbers{1, 2, 3, 4, 5, 6}, {2, 3});
  CHECK(values(one(scaled().with({2, 1}), x)) == Numbers{3, 5, 7, 9, 11, 13});
  CHECK(values(one(scaled().with({1, 0}), x.transpose())) == Numbers{1, 4, 2, 5, 3, 6});
  CHECK(values(one(scaled().with({1, 0}), x.slice(1, 0, 1).broadcast_to({2, 3}))) == Numbers{1, 1, 1, 4, 4, 4});
  const Array outputs[] = {Array::empty({100}, DType::f32, cpu()), Array::empty({100}, DType::f32, cpu())};
  const Array many = Array::arange(100, DType::f32, cpu());
  set_cpu_threads(cpu(), 3);
  run_kernel(scaled().with({1, 1}), {&many, 1}, outputs);
  set_cpu_threads(cpu(), 1);
  CHECK(values(outputs[0]).back() == 100);
  CHECK(values(outputs[1]).back() == 10000);
  CHECK(values(outputs[1])[6] == 49);
  const auto version = outputs[0].storage()->version();
  run_kernel(scaled().with({3, 0}), {&many, 1}, {outputs, 1});
  CHECK(values(outputs[0])[1] == 3);
  CHECK(outputs[0].storage()->version() == version + 1);
  CHECK(one(scaled().with({1, 0}), x_of({})).size() == 0);  // not called, or parameters would be read
  CHECK(one(scaled(), x_of({})).size() == 0);
}

TEST_CASE("custom kernel: what may be wrong with it is told, with its name") {
  const auto nothing = [](const CustomCall&, const CpuThreads&) {};
  CHECK(text_of([] { CustomKernel("empty", {}); }) == "[empty] the kernel has no function");
  CHECK(text_of([&] { CustomKernel("", {.cpu = nothing}); }) == "[custom_kernel] a kernel without a name");
  const Array x = x_of({1, 2});
  CHECK(text_of([&] { run_kernel(scaled(), {&x, 1}, {}); }) == "[scaled] the kernel is run without outputs");
  CHECK(text_of([&] { run_kernel(scaled(), {}, {2}, DType::f32); }) ==
        "[scaled] without inputs no device is known: give the output");
  const Array elsewhere[] = {x_of({1, 2}, cpu(1))};
  CHECK_THROWS_WITH_AS(run_kernel(scaled(), {&x, 1}, elsewhere), doctest::Contains("[scaled]"), DeviceError);
  const Array undefined;
  CHECK_THROWS_WITH_AS(run_kernel(scaled(), {&undefined, 1}, {&x, 1}), doctest::Contains("[scaled]"), Error);

  const CustomKernel elsewhere_alone("elsewhere", {.cuda = [](const CustomCall&, void*) {}});
  CHECK_THROWS_WITH_AS(one(elsewhere_alone, x), "[elsewhere] the kernel has no function for cpu:0: it has one for cuda",
                       DeviceError);
  const Array outputs[] = {x};
  CHECK_THROWS_WITH_AS(backend_for(cpu()).custom(elsewhere_alone, {&x, 1}, outputs), doctest::Contains("cpu:0"),
                       DeviceError);
  CHECK_THROWS_WITH(
      one(CustomKernel("burning", {.cpu = [](const CustomCall&, const CpuThreads&) { raise("too hot"); }}), x)
          .to_vector<float>(),
      "too hot");
  try {  // an asynchronous stream has the error until then
    synchronize(cpu());
  } catch (const Error&) {
  }
}

TEST_CASE("custom kernel: loops refuse operands that do not fit") {
  const auto error_of_loop = [](const CustomKernel::CpuFunction& function) {
    const CustomKernel kernel("looping", {.cpu = function});
    const Array inputs[] = {x_of({1, 2}), x_of({1, 2}), x_of({1, 2}), x_of({1, 2})};
    return text_of([&] {
      const Array y = run_kernel(kernel, inputs, {2}, DType::f32);
      synchronize(cpu());
    });
  };
  const auto ignore = [](const ElementRun&) {};
  CHECK(error_of_loop([&](const CustomCall& call, const CpuThreads& threads) {
          threads.for_each_run(call.outputs[0], call.inputs, ignore);
        }).find("4 inputs") != std::string::npos);
  CHECK(error_of_loop([&](const CustomCall& call, const CpuThreads& threads) {
          const Array row = call.inputs[0].expand_dims(0);
          threads.for_each_run(call.outputs[0], {&row, 1}, ignore);
        }).find("[1, 2]") != std::string::npos);
  CHECK(error_of_loop([](const CustomCall&, const CpuThreads& threads) {
          threads.parallel_for(10, 0, [](std::int64_t, std::int64_t) {});
        }).find("blocks of 0") != std::string::npos);
  CHECK(text_of([] {
          CustomKernel("own", {.others = {{DeviceKind::cpu, [](const CustomCall&, Stream&) {}}}});
        }).find("no other") != std::string::npos);
}

TEST_CASE("custom kernel: equal are those that were copied, with equal parameters") {
  const CustomKernel::Functions functions{.cpu = [](const CustomCall&, const CpuThreads&) {}};
  const CustomKernel one("one", functions);
  CHECK(one == CustomKernel(one));
  CHECK(one != CustomKernel("one", functions));
  CHECK(one.with({1}) == one.with({1}));
  CHECK(one.with({1}) != one.with({2}));
  CHECK(one.with({std::nan("")}) == one.with({std::nan("")}));
  CHECK(one.name() == "one");
  CHECK(one.in_graphs());
}

TEST_CASE("custom kernel: asynchronous streams run it in the order of their work, and keep its arrays") {
  static CpuBackend inner(CpuStream::Mode::worker);
  static const DeviceKind kind = register_backend("workers", std::make_unique<CountingBackend>(inner));
  const Device device{kind, 0};
  std::atomic<bool> go = false;
  std::thread::id ran_on;
  const CustomKernel waiting("waiting", {.cpu = [&](const CustomCall& call, const CpuThreads&) {
                               go.wait(false);
                               ran_on = std::this_thread::get_id();
                               call.outputs[0].data<float>()[0] = call.inputs[0].data<float>()[0] + 1;
                             }});
  Array last;
  {
    const Array x = x_of({1}, device);
    const Array y = apply(elementwise::Add{}, x, one(waiting, apply(elementwise::Add{}, x, x)));
    last = one(scaled().with({10, 0}), y);
  }
  go = true;
  go.notify_all();
  CHECK(values(last) == Numbers{40});
  CHECK(ran_on != std::this_thread::get_id());
}

TEST_CASE("custom kernel: backends around a device see it; other kinds have functions of their own") {
  auto* const counting = new CountingBackend(backend_for(cpu()));
  const Device around{register_backend("counting custom", std::unique_ptr<Backend>(counting)), 0};
  const Array x = x_of({1, 2, 3}, around);
  const Array outputs[] = {Array::empty({3}, DType::f32, around), Array::empty({3}, DType::f32, around)};
  run_kernel(scaled().with({2, 0}), {&x, 1}, outputs);
  CHECK(values(outputs[1]) == Numbers{4, 16, 36});
  CHECK(counting->calls == std::map<std::string_view, int>{{"custom", 1}});
  CHECK(counting->written == 6);

  const DeviceKind kind = register_backend("recording custom", std::make_unique<RecordingBackend>());
  const Array there = x_of({1, 2, 3}, {kind, 1});
  CHECK_THROWS_WITH_AS(one(scaled(), there),
                       "[scaled] the kernel has no function for recording custom:1: it has one for cpu", DeviceError);
  const Stream* given = nullptr;
  const CustomKernel own("own", {.others = {{kind, [&](const CustomCall& call, Stream& stream) {
                                               given = &stream;
                                               call.outputs[0].data<float>()[0] = 7;
                                             }}}});
  CHECK(values(one(own, there))[0] == 7);
  CHECK(given == &backend_for(kind).compute_stream({kind, 1}));
  CHECK_THROWS_WITH_AS(one(own, x_of({1})), doctest::Contains("it has one for recording custom"), DeviceError);
}

TEST_CASE("custom kernel: a captured step makes its call again, on what its inputs hold then") {
  const Array x = x_of({1, 2, 3});
  Array result = x_of({0, 0, 0});
  const auto work = [&](double scale) {
    const Array outputs[] = {Array::empty({3}, DType::f32, cpu()), result};
    run_kernel(scaled().with({scale, 0}), {&x, 1}, outputs);
    return apply(elementwise::Add{}, outputs[0], x);
  };
  const auto captured = [&](Capture& capture, double scale) {
    const CaptureScope scope(capture);
    return work(scale);
  };
  Capture capture(cpu());
  const Array sum = captured(capture, 2);
  CHECK(capture.tape().size() == 2);
  CHECK(values(result) == Numbers{4, 16, 36});
  Array(x).copy_from(x_of({5, 6, 7}));
  const auto version = result.storage()->version();
  capture.begin_replay();
  capture.run(0, 2);
  CHECK(values(result) == Numbers{100, 144, 196});
  CHECK(values(sum) == Numbers{15, 18, 21});
  CHECK(result.storage()->version() == version + 1);

  Capture same(cpu());
  captured(same, 2);
  CHECK(capture.tape().difference(same.tape()).empty());
  Capture other(cpu());
  captured(other, 3);
  CHECK(capture.tape().difference(other.tape()) == "call 1 (scaled) had other numbers, shapes or operands");
  CHECK(capture.tape().constant_until(0, 2) == 2);

  const CustomKernel bound("bound", {.cpu = [](const CustomCall&, const CpuThreads&) {}, .in_graphs = false});
  Capture varying(cpu());
  {
    const CaptureScope scope(varying);
    one(bound, x);
  }
  CHECK(varying.tape().constant_until(0, 1) == 0);
}

}  // namespace tutti

TEST_SUITE_END();
