// SPDX-License-Identifier: Apache-2.0
#include <tutti/testing/engines/engine_check.h>

#include <tutti/backend/registry.h>
#include <tutti/distributed/collectives/collective_call.h>
#include <tutti/distributed/collectives/collective_plan.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace tutti::testing {

namespace {

using Inputs = std::vector<std::vector<double>>;  // by member

/// Element of a part, by its definition, in the type T of sums.
template <class T> double combined(const CollectiveRequest& request, const Inputs& inputs, const CollectivePart& part,
                                   std::int64_t element) {
  std::vector<std::optional<T>> by_number;
  for (const CollectivePart::Place& source : part.sources) {
    by_number.resize(source.number + 1);
    by_number[source.number] = static_cast<T>(inputs[source.member][static_cast<std::size_t>(source.offset + element)]);
  }
  if (by_number.empty()) return 0.0;
  if (request.operation == CollectiveOperation::max || request.operation == CollectiveOperation::min) {
    std::optional<T> best;
    for (const std::optional<T>& value : by_number)
      if (value && (!best || (request.operation == CollectiveOperation::max ? *value > *best : *value < *best)))
        best = value;
    return static_cast<double>(*best);
  }
  const double divisor =
      request.operation == CollectiveOperation::mean ? static_cast<double>(part.sources.size()) : request.denominator;
  return static_cast<double>(*tree_sum<T>(by_number) / static_cast<T>(divisor));
}

void run(EngineCheck& check, const std::vector<CollectiveCall>& calls) {
  const std::vector<Member> members = members_of(check.devices());
  const DType dtype = calls.front().dtype;
  check.set_what(to_string(calls.front()));
  const CollectivePlan plan = plan_collective(calls, members);
  CollectiveRequest request{
      .operation = calls.front().operation, .inputs = {}, .outputs = {}, .ready = {}, .parts = plan.parts};
  request.name = "conformance";
  if (request.operation == CollectiveOperation::sum && reduces(calls.front().kind)) request.denominator = 3.0;
  Inputs inputs;
  std::vector<std::vector<double>> wanted;
  for (std::size_t member = 0; member < members.size(); ++member) {
    const Device device = check.devices()[member];
    inputs.push_back(contribution(element_count(calls[member].shape), member, dtype == DType::bf16));
    request.inputs.push_back(array_of(inputs.back(), calls[member].dtype, device));
    request.outputs.push_back(Array::full({element_count(plan.outputs[member])}, -77.0, calls[member].dtype, device));
    request.ready.push_back(compute_stream(device).record());
    wanted.emplace_back(static_cast<std::size_t>(element_count(plan.outputs[member])), -77.0);
  }
  for (const CollectivePart& part : plan.parts)
    for (std::int64_t i = 0; i < part.count; ++i) {
      const double value =
          dtype == DType::f64 ? combined<double>(request, inputs, part, i) : combined<float>(request, inputs, part, i);
      for (const CollectivePart::Place& target : part.targets)
        wanted[target.member][static_cast<std::size_t>(target.offset + i)] = rounded(value, dtype);
    }
  const std::vector<Array> given = request.inputs;
  const std::vector<Array> outputs = request.outputs;
  const auto shared = std::make_shared<CollectiveRequest>(std::move(request));
  check.join_well({check.launch([shared](Communicator& engine) { return engine.collective(std::move(*shared)); })});
  for (std::size_t member = 0; member < members.size(); ++member)
    check.check_elements(given[member], inputs[member], check.devices()[member]);
  for (std::size_t member = 0; member < members.size(); ++member)
    check.check_elements(outputs[member], wanted[member], check.devices()[member]);
}

}  // namespace

void check_collectives(EngineCheck& check) {
  const std::size_t count = check.devices().size();
  const auto all = [&](const CollectiveCall& call) { run(check, std::vector<CollectiveCall>(count, call)); };
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    for (const auto operation :
         {CollectiveOperation::sum, CollectiveOperation::mean, CollectiveOperation::max, CollectiveOperation::min})
      all({.kind = CollectiveKind::all_reduce, .operation = operation, .shape = {60}, .dtype = dtype});
    for (const Device root : check.devices()) {
      all({.kind = CollectiveKind::broadcast, .root = root, .shape = {5, 3}, .dtype = dtype});
      all({.kind = CollectiveKind::reduce, .root = root, .shape = {5, 3}, .dtype = dtype});
    }
    // Parts of unlike lengths, one of them of none.
    std::vector<std::int64_t> lengths;
    std::int64_t rows = 0;
    for (std::size_t member = 0; member < count; ++member) {
      lengths.push_back(static_cast<std::int64_t>(member * 2));
      rows += lengths.back();
    }
    all({.kind = CollectiveKind::reduce_scatter, .lengths = lengths, .shape = {rows, 2}, .dtype = dtype});
    all({.kind = CollectiveKind::all_to_all, .lengths = lengths, .shape = {rows, 2}, .dtype = dtype});
    std::vector<CollectiveCall> gathered;
    for (std::size_t member = 0; member < count; ++member)
      gathered.push_back({.kind = CollectiveKind::all_gather, .shape = {lengths[member], 3}, .dtype = dtype});
    run(check, gathered);
  }
}

void check_collective_ready(EngineCheck& check) {
  // What is there before the event is NaN.
  constexpr std::int64_t kCount = 300;
  const std::size_t count = check.devices().size();
  check.set_what("collective of what is ready later");
  const CollectiveCall call{.kind = CollectiveKind::all_reduce, .shape = {kCount}};
  const std::vector<CollectiveCall> calls(count, call);
  CollectiveRequest request{
      .inputs = {}, .outputs = {}, .ready = {}, .parts = plan_collective(calls, members_of(check.devices())).parts};
  const auto later = std::make_shared<LaterEvent>();
  for (const Device device : check.devices()) {
    request.inputs.push_back(Array::full({kCount}, std::numeric_limits<double>::quiet_NaN(), DType::f32, device));
    request.outputs.push_back(Array::full({kCount}, 0.0, DType::f32, device));
    synchronize(device);
    request.ready.emplace_back(later);
  }
  const std::vector<Array> inputs = request.inputs;
  const std::vector<Array> outputs = request.outputs;
  Inputs given;
  for (std::size_t member = 0; member < count; ++member) given.push_back(contribution(kCount, member, false));
  const CollectiveRequest described = request;
  const auto shared = std::make_shared<CollectiveRequest>(std::move(request));
  join_when_ready(
      check, [shared](Communicator& engine) { return engine.collective(std::move(*shared)); }, *later, inputs, given);
  std::vector<double> wanted;
  for (std::int64_t i = 0; i < kCount; ++i) wanted.push_back(combined<float>(described, given, described.parts[0], i));
  for (std::size_t member = 0; member < count; ++member)
    check.check_elements(outputs[member], wanted, check.devices()[member]);
}

void check_sparse(EngineCheck& check) {
  if (!check.engine().reduces_sparse()) {
    check.leave_out("reduce_sparse: the engine has none (reduces_sparse)");
    return;
  }
  const std::size_t count = check.devices().size();
  const SyncParameter table{.name = "table", .shape = {10, 2}, .dtype = DType::f32, .sparse = true};
  // Rows that some have in common, some of them twice.
  const auto launch = [&](bool out_of_range, const std::shared_ptr<SparseResult>& result) {
    SparseReduction reduction{
        .parameter = table, .contributions = {}, .receivers = {}, .ready = {}, .denominator = 2.0, .result = result};
    for (std::size_t member = 0; member < count; ++member) {
      const Device device = check.devices()[member];
      const auto own = static_cast<std::int64_t>(member);
      const std::vector<std::int64_t> indices{own, 5, out_of_range && member + 1 == count ? 12 : 9, 5};
      reduction.contributions.push_back(
          {device,
           member,
           {SparseGradient{Array::from(indices, {4}, device),
                           array_of(contribution(8, member, false), DType::f32, device).reshape({4, 2}),
                           {10, 2},
                           false}}});
      reduction.receivers.push_back(device);
      reduction.ready.push_back(compute_stream(device).record());
    }
    const auto shared = std::make_shared<SparseReduction>(std::move(reduction));
    return check.launch([shared](Communicator& engine) { return engine.reduce_sparse(std::move(*shared)); });
  };
  const auto empty_result = [&] {
    return std::make_shared<SparseResult>(
        SparseResult{std::vector<bool>(count, true), std::vector<std::vector<SparseGradient>>(count)});
  };
  check.set_what("reduce_sparse");
  std::shared_ptr<SparseResult> result = empty_result();
  check.join_well({launch(false, result)});
  // Each contribution is summed by itself, then all of them in the tree.
  std::vector<double> wanted(20, 0.0);
  std::vector<std::vector<std::optional<float>>> by_element(20, std::vector<std::optional<float>>(count));
  for (std::size_t member = 0; member < count; ++member) {
    const std::vector<double> values = contribution(8, member, false);
    const std::size_t rows[] = {member, 5, 9, 5};
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::optional<float>& own = by_element[rows[i / 2] * 2 + i % 2][member];
      own = own.value_or(0.0F) + static_cast<float>(values[i]);
    }
  }
  for (std::size_t i = 0; i < wanted.size(); ++i)
    wanted[i] = static_cast<double>(tree_sum<float>(by_element[i]).value_or(0.0F) / 2.0F);
  for (std::size_t member = 0; member < count; ++member) {
    std::vector<double> dense(20, 0.0);
    for (const SparseGradient& part : result->gradients[member]) {
      check.check(part.rows.device() == check.devices()[member], "a result on another device");
      const auto indices = part.indices.to(cpu()).to_vector<std::int64_t>();
      const auto values = part.rows.to(cpu()).to_vector<float>();
      const bool is_sound = values.size() == 2 * indices.size() &&
                            std::ranges::all_of(indices, [](std::int64_t index) { return index >= 0 && index < 10; });
      check.check(is_sound, fmt::format("{} has rows that the table has not", to_string(check.devices()[member])));
      if (!is_sound) continue;
      for (std::size_t i = 0; i < values.size(); ++i)
        dense[static_cast<std::size_t>(indices[i / 2]) * 2 + i % 2] += static_cast<double>(values[i]);
    }
    check.check(dense == wanted, fmt::format("{} has other rows", to_string(check.devices()[member])));
  }

  check.set_what("reduce_sparse with a row that the table has not");
  result = empty_result();
  for (const std::string& error : check.join({launch(true, result)}))
    check.check(error.find("table") != std::string::npos && error.find("12") != std::string::npos,
                "the error names not parameter and index: '" + error + "'");

  check.set_what("reduce_sparse while switched off");
  check.engine().set_enabled(false);
  result = empty_result();
  check.join_well({launch(false, result)});
  for (const auto& gradients : result->gradients) check.check(gradients.empty(), "there is a result");
  check.engine().set_enabled(true);
}

}  // namespace tutti::testing
