// SPDX-License-Identifier: Apache-2.0
#include <tutti/testing/engines/engine_check.h>

#include <tutti/backend/registry.h>

#include <fmt/format.h>

#include <limits>
#include <utility>

namespace tutti::testing {

namespace {

/// One all-reduce, and what should come of it.
struct Reduction {
  std::int64_t count = 0;
  DType dtype = DType::f32;
  double denominator = 1.0;
  std::vector<std::size_t> members = {};  // places of the devices that have a slice; their numbers, too
  std::vector<std::size_t> absent = {};   // members that do not contribute
  GradientWire wire = GradientWire::native;
  double wire_scale = 1.0;
  bool exact = false;
};

bool is_absent(const Reduction& reduction, std::size_t member) {
  return std::ranges::find(reduction.absent, member) != reduction.absent.end();
}

AllReduceRequest request_of(EngineCheck& check, const Reduction& reduction) {
  AllReduceRequest request{.slices = {},
                           .ready = {},
                           .denominator = reduction.denominator,
                           .wire = reduction.wire,
                           .wire_scale = reduction.wire_scale,
                           .parameter = "weight",
                           .numbers = reduction.members};
  for (const std::size_t member : reduction.members) {
    const Device device = check.devices()[member];
    const bool absent = is_absent(reduction, member);
    const std::vector<double> silent(static_cast<std::size_t>(reduction.count),
                                     std::numeric_limits<double>::quiet_NaN());
    request.slices.push_back(
        {array_of(absent ? silent : contribution(reduction.count, member, reduction.exact), reduction.dtype, device),
         !absent});
    request.ready.push_back(compute_stream(device).record());
  }
  return request;
}

DType wire_type(GradientWire wire) { return wire == GradientWire::bf16 ? DType::bf16 : DType::f16; }

/// In the type T of sums.
template <class T> std::vector<double> sums(const Reduction& reduction) {
  const bool is_narrow = reduction.wire != GradientWire::native;
  const std::size_t leaves = reduction.members.empty() ? 1 : reduction.members.back() + 1;
  std::vector<std::vector<double>> contributions(leaves);
  for (const std::size_t member : reduction.members)
    if (!is_absent(reduction, member)) contributions[member] = contribution(reduction.count, member, reduction.exact);
  std::vector<double> result;
  for (std::size_t i = 0; i < static_cast<std::size_t>(reduction.count); ++i) {
    std::vector<std::optional<T>> by_number(leaves);
    for (const std::size_t member : reduction.members) {
      if (contributions[member].empty()) continue;
      double value = contributions[member][i];
      if (is_narrow) value = rounded(value * reduction.wire_scale, wire_type(reduction.wire));
      by_number[member] = static_cast<T>(value);
    }
    const T sum = tree_sum<T>(by_number).value_or(T(0));
    double value = static_cast<double>(sum / static_cast<T>(reduction.denominator * reduction.wire_scale));
    if (is_narrow) value = rounded(value, wire_type(reduction.wire));
    result.push_back(rounded(value, reduction.dtype));
  }
  return result;
}

std::vector<double> expected(const Reduction& reduction) {
  return reduction.dtype == DType::f64 ? sums<double>(reduction) : sums<float>(reduction);
}

Task launched(EngineCheck& check, AllReduceRequest request) {
  const auto shared = std::make_shared<AllReduceRequest>(std::move(request));
  return check.launch([shared](Communicator& engine) { return engine.all_reduce(std::move(*shared)); });
}

void run(EngineCheck& check, const Reduction& reduction) {
  std::string absent;
  for (const std::size_t member : reduction.absent) absent += fmt::format(" {}", member);
  check.set_what(fmt::format(
      "all_reduce of {} {} / {:g}{}{}{}", reduction.count, to_string(reduction.dtype), reduction.denominator,
      reduction.wire == GradientWire::native
          ? ""
          : fmt::format(" over {} times {:g}", to_string(reduction.wire), reduction.wire_scale),
      reduction.members.size() == check.devices().size() ? ""
                                                         : fmt::format(" between {} members", reduction.members.size()),
      absent.empty() ? "" : " without" + absent));
  AllReduceRequest request = request_of(check, reduction);
  const std::vector<AllReduceSlice> slices = request.slices;
  check.join_well({launched(check, std::move(request))});
  const std::vector<double> wanted = expected(reduction);
  for (const AllReduceSlice& slice : slices) check.check_elements(slice.gradient, wanted, slice.gradient.device());
}

std::vector<std::size_t> all_members(const EngineCheck& check) {
  std::vector<std::size_t> members;
  for (std::size_t member = 0; member < check.devices().size(); ++member) members.push_back(member);
  return members;
}

}  // namespace

void check_reductions(EngineCheck& check) {
  const std::vector<std::size_t> all = all_members(check);
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16})
    for (const std::int64_t count : {0, 1, 15, 1000}) {
      const bool exact = dtype == DType::bf16 || dtype == DType::f16;
      run(check, {.count = count, .dtype = dtype, .denominator = 4.0, .members = all, .exact = exact});
      run(check, {.count = count, .dtype = dtype, .members = all, .absent = {all.back()}, .exact = exact});
    }
  run(check, {.count = 20'000, .denominator = 3.0, .members = all});
  run(check, {.count = 100, .denominator = 0.75, .members = all, .absent = all});
  for (const std::size_t left_out : all)
    if (all.size() > 1) {
      std::vector<std::size_t> members = all;
      std::erase(members, left_out);
      run(check, {.count = 100, .members = members});
    }
}

void check_wires(EngineCheck& check) {
  const std::vector<std::size_t> all = all_members(check);
  for (const GradientWire wire : {GradientWire::bf16, GradientWire::f16})
    for (const double scale : {1.0, 1024.0}) {
      run(check, {.count = 1000, .denominator = 2.0, .members = all, .wire = wire, .wire_scale = scale});
      run(check, {.count = 33, .members = all, .absent = {all.front()}, .wire = wire, .wire_scale = scale});
    }
}

void check_order(EngineCheck& check) {
  // Each takes what the one before made, and is launched before that has ended.
  constexpr std::int64_t kCount = 300;
  constexpr int kRounds = 5;
  const std::vector<std::size_t> all = all_members(check);
  const auto count = static_cast<double>(all.size());
  check.set_what("all_reduce five times in its own wake");
  AllReduceRequest request = request_of(check, {.count = kCount, .members = all, .exact = true});
  std::vector<Task> tasks;
  for (int round = 0; round < kRounds; ++round) {
    if (round > 0) request.ready = events_of(tasks.back());
    tasks.push_back(launched(check, request));
  }
  check.join_well(tasks);
  std::vector<double> wanted = expected({.count = kCount, .members = all, .exact = true});
  for (double& value : wanted)
    for (int round = 1; round < kRounds; ++round) value *= count;
  for (const AllReduceSlice& slice : request.slices)
    check.check_elements(slice.gradient, wanted, slice.gradient.device());

  check.set_what("all_reduce, fifty at a time, joined last first");
  const Reduction small{.count = 64, .members = all};
  std::vector<AllReduceSlice> slices;
  tasks.clear();
  for (int i = 0; i < 50; ++i) {
    AllReduceRequest each = request_of(check, small);
    slices.insert(slices.end(), each.slices.begin(), each.slices.end());
    tasks.push_back(launched(check, std::move(each)));
  }
  std::ranges::reverse(tasks);
  check.join_well(tasks);
  wanted = expected(small);
  for (const AllReduceSlice& slice : slices) check.check_elements(slice.gradient, wanted, slice.gradient.device());

  check.set_what("gradient_memory");
  for (const Device device : check.devices()) {
    const Array memory = check.engine().gradient_memory(100, DType::f32, device);
    check.check(memory.device() == device && memory.dtype() == DType::f32, "another device or type");
    check.check_elements(memory, std::vector<double>(100, 0.0), device);
  }
}

void check_ready(EngineCheck& check) {
  // What is there before the event is NaN.
  constexpr std::int64_t kCount = 500;
  const std::vector<std::size_t> all = all_members(check);
  check.set_what("all_reduce of what is ready later");
  AllReduceRequest request = request_of(check, {.count = kCount, .denominator = 2.0, .members = all, .absent = all});
  for (AllReduceSlice& slice : request.slices) slice.contributes = true;
  const std::vector<AllReduceSlice> slices = request.slices;
  const auto later = std::make_shared<LaterEvent>();
  for (Event& event : request.ready) event = Event(later);
  std::vector<Array> inputs;
  std::vector<std::vector<double>> given;
  for (std::size_t member = 0; member < slices.size(); ++member) {
    inputs.push_back(slices[member].gradient);
    given.push_back(contribution(kCount, member, false));
  }
  const auto shared = std::make_shared<AllReduceRequest>(std::move(request));
  join_when_ready(
      check, [shared](Communicator& engine) { return engine.all_reduce(std::move(*shared)); }, *later, inputs, given);
  const std::vector<double> wanted = expected({.count = kCount, .denominator = 2.0, .members = all});
  for (const AllReduceSlice& slice : slices) check.check_elements(slice.gradient, wanted, slice.gradient.device());
}

void check_switched_off(EngineCheck& check) {
  const std::vector<std::size_t> all = all_members(check);
  check.set_what("all_reduce while switched off");
  check.engine().set_enabled(false);
  AllReduceRequest request = request_of(check, {.count = 100, .members = all});
  const std::vector<AllReduceSlice> slices = request.slices;
  check.join_well({launched(check, std::move(request))});
  for (std::size_t member = 0; member < slices.size(); ++member)
    check.check_elements(slices[member].gradient, contribution(100, member, false), check.devices()[member]);
  check.engine().set_enabled(true);
  run(check, {.count = 100, .members = all});
}

void check_regrouped(EngineCheck& check) {
  if (check.devices().size() < 2) return;
  std::vector<std::size_t> left = all_members(check);
  left.erase(left.begin());
  const std::vector<Member> members = members_of(check.devices().subspan(1));
  check.engine().regroup(members);
  run(check, {.count = 100, .members = left});
}

}  // namespace tutti::testing
