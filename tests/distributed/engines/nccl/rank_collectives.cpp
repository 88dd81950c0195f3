// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/distributed/engines/nccl/nccl_rank.h>

#include <tutti/backend/registry.h>
#include <tutti/distributed/collectives/collective_plan.h>
#include <tutti/distributed/engines/local/local_communicator.h>
#include <tutti/distributed/engines/nccl/nccl_communicator.h>

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <vector>

namespace tutti::testing {
namespace {

using Tasks = std::vector<std::shared_ptr<CollectiveTask>>;

/// What rank `member` brings: the same numbers in whichever process they are made.
Array input_of(std::size_t member, std::int64_t rows, DType dtype, Device device) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < rows * 3; ++i)
    values.push_back(static_cast<float>((static_cast<std::int64_t>(member) * 37 + i * 11) % 23 - 11));
  if (is_floating(dtype)) values.back() = std::numeric_limits<float>::quiet_NaN();
  return Array::from(values, {rows, 3}, cpu()).cast(dtype).to(device);
}

class CollectiveCheck {
 public:
  CollectiveCheck(const Rank& rank, NcclCommunicator& engine) : rank_(rank), engine_(engine) {
    for (int i = 0; i < rank.world; ++i) devices_.push_back(cpu(static_cast<std::uint16_t>(i)));
  }

  void run(CollectiveCall call) {
    const auto world = static_cast<std::size_t>(rank_.world);
    const auto rows = static_cast<std::int64_t>(2 * world);
    call.shape = {rows, 3};
    call.root = devices_.back();
    if (has_parts(call.kind)) call.lengths.assign(world, 2);
    const std::vector<CollectiveCall> calls(world, call);
    const CollectivePlan plan = plan_collective(calls, members_of(devices_));

    CollectiveRequest expected{
        .operation = call.operation, .inputs = {}, .outputs = {}, .ready = {}, .parts = plan.parts};
    CollectiveRequest own = expected;
    for (std::size_t member = 0; member < world; ++member) {
      expected.inputs.push_back(input_of(member, rows, call.dtype, devices_[member]));
      expected.outputs.push_back(Array::zeros(plan.outputs[member], call.dtype, devices_[member]));
      const bool here = member == static_cast<std::size_t>(rank_.number);
      own.inputs.push_back(here ? expected.inputs.back().to(cuda(0)) : Array());
      own.outputs.push_back(here ? Array::zeros(plan.outputs[member], call.dtype, cuda(0)) : Array());
    }
    LocalCommunicator reference;
    for (const Device device : devices_) synchronize(device);
    const auto done = reference.collective(expected);
    join_tasks(devices_.front(), Tasks{done});
    own.ready = {compute_stream(cuda(0)).record()};
    join_tasks(cuda(0), Tasks{engine_.collective(own)});
    const auto number = static_cast<std::size_t>(rank_.number);
    compare(call, expected.outputs[number], own.outputs[number]);
  }

 private:
  static void compare(const CollectiveCall& call, const Array& expected, const Array& found) {
    const auto a = expected.to(cpu()).cast(DType::f64).to_vector<double>();
    const auto b = found.to(cpu()).cast(DType::f64).to_vector<double>();
    for (std::size_t i = 0; i < a.size(); ++i)
      if (!(std::abs(a[i] - b[i]) <= 1e-6 * std::abs(a[i])) && !(std::isnan(a[i]) && std::isnan(b[i])))
        throw RankFailure(fmt::format("{}: element {} is {} and should be {}", to_string(call), i, b[i], a[i]));
  }

  const Rank& rank_;
  NcclCommunicator& engine_;
  std::vector<Device> devices_;  // of the reference: one for each rank
};

void check_gradients(const Rank& rank, NcclCommunicator& engine, DType dtype, GradientWire wire) {
  const Array gradient = Array::full({1001}, rank.number + 1, dtype, cuda(0));
  for (int round = 0; round < 3; ++round)
    join_tasks(cuda(0), Tasks{engine.all_reduce({.slices = {{gradient}},
                                                 .ready = {compute_stream(cuda(0)).record()},
                                                 .denominator = static_cast<double>(rank.world),
                                                 .wire = wire})});
  const float mean = static_cast<float>(rank.world + 1) / 2;  // of what are means already, from the second round on
  for (const float value : gradient.cast(DType::f32).to_vector<float>())
    if (value != mean) throw RankFailure(fmt::format("all_reduce of gradients gave {} and not {}", value, mean));
}

}  // namespace

void check_collectives(const Rank& rank, NcclCommunicator& engine) {
  check_gradients(rank, engine, DType::f32, GradientWire::native);
  check_gradients(rank, engine, DType::f32, GradientWire::f16);
  check_gradients(rank, engine, DType::bf16, GradientWire::native);
  CollectiveCheck check(rank, engine);
  for (const DType dtype : {DType::f32, DType::f64, DType::i64, DType::bf16}) {
    for (const CollectiveKind kind :
         {CollectiveKind::all_reduce, CollectiveKind::reduce_scatter, CollectiveKind::reduce})
      for (const CollectiveOperation operation :
           {CollectiveOperation::sum, CollectiveOperation::max, CollectiveOperation::min})
        check.run({.kind = kind, .operation = operation, .dtype = dtype});
    if (is_floating(dtype))
      check.run({.kind = CollectiveKind::all_reduce, .operation = CollectiveOperation::mean, .dtype = dtype});
    for (const CollectiveKind kind :
         {CollectiveKind::all_gather, CollectiveKind::broadcast, CollectiveKind::all_to_all})
      check.run({.kind = kind, .dtype = dtype});
  }
}

}  // namespace tutti::testing
