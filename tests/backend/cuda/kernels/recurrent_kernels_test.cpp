// SPDX-License-Identifier: Apache-2.0
// The kernels of recurrent networks on the host against the CPU backend.
#include <tutti/backend/cuda/kernels/recurrent.h>
#include <tutti/backend/registry.h>
#include <tutti/tests/backend/cuda/on_host/device_array.h>
#include <tutti/tests/backend/random/random_views.h>

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

TEST_SUITE_BEGIN("cpu");

namespace tutti {
namespace {

using on_host::DeviceArray;

constexpr RecurrentGates kAll[] = {RecurrentGates::tanh, RecurrentGates::relu, RecurrentGates::lstm,
                                   RecurrentGates::gru};

struct Sizes {
  RecurrentGates gates;
  DType dtype;
  std::int64_t rows;
  std::int64_t length;

  std::int64_t blocks() const { return gates == RecurrentGates::lstm ? 4 : gates == RecurrentGates::gru ? 3 : 1; }
  std::int64_t kept() const { return gates == RecurrentGates::lstm || gates == RecurrentGates::gru ? 4 : 1; }
  bool has_cell() const { return gates == RecurrentGates::lstm; }
  Array made(samples::RandomViews& views, std::int64_t count, std::int64_t columns) const {
    Array array = Array::empty({count, columns}, dtype, cpu());
    views.fill_ordinary(array);
    return array;
  }
};

enum class Use : std::uint8_t { read, changed, written };

/// An array of a kernel; undefined: none.
struct Operand {
  Array array;
  Use use;
};

/// The operands on the host: what kernels get.
class Lent {
 public:
  explicit Lent(const std::vector<Operand>& operands) {
    for (const Operand& each : operands) {
      memory_.emplace_back();
      if (!each.array.defined()) continue;
      if (each.use == Use::read)
        memory_.back().emplace(each.array);
      else
        memory_.back().emplace(DeviceArray::unwritten(each.array.bytes()));
      if (each.use == Use::changed) std::memcpy(memory_.back()->data(), each.array.raw_data(), each.array.bytes());
    }
  }
  void* at(std::size_t i) { return memory_[i] ? memory_[i]->data() : nullptr; }
  Array read(std::size_t i, const Array& like) const { return memory_[i]->read(like.shape(), like.dtype()); }

 private:
  std::vector<std::optional<DeviceArray>> memory_;
};

/// `run(lent)` launches the kernel, `expect(arrays)` the CPU's on copies; what is written or changed has to be alike.
template <class Run, class Expect>
void check(const std::vector<Operand>& operands, std::size_t first_written, const Run& run, const Expect& expect) {
  std::vector<Array> expected;
  for (const Operand& each : operands) expected.push_back(each.array.defined() ? each.array.copy() : Array());
  expect(expected);
  for (std::size_t i = first_written; i < operands.size(); ++i) {
    if (!operands[i].array.defined()) continue;
    CAPTURE(i);
    const Array found = on_host::in_every_order([&] {
      Lent lent(operands);
      run(lent);
      return lent.read(i, operands[i].array);
    });
    CHECK(on_host::differences(found, expected[i], operands[i].array.dtype() == DType::f64 ? 1e-14 : 1e-6) == 0);
  }
}

void check_step(samples::RandomViews& views, const Sizes& sizes, bool keeps, bool has_bias) {
  const auto state = [&] { return sizes.made(views, sizes.rows, sizes.length); };
  const auto kept_if = [&](bool wanted, std::int64_t columns) {
    return wanted ? sizes.made(views, sizes.rows, columns) : Array();
  };
  const std::vector<Operand> operands{
      {sizes.made(views, sizes.rows, sizes.blocks() * sizes.length), Use::read},
      {sizes.made(views, sizes.rows, sizes.blocks() * sizes.length), Use::read},
      {has_bias ? sizes.made(views, 1, sizes.blocks() * sizes.length).reshape({-1}) : Array(), Use::read},
      {state(), Use::changed},
      {kept_if(sizes.has_cell(), sizes.length), Use::changed},
      {state(), Use::written},
      {kept_if(keeps, sizes.kept() * sizes.length), Use::written},
      {kept_if(keeps, sizes.length), Use::written},
      {kept_if(keeps && sizes.has_cell(), sizes.length), Use::written}};
  check(
      operands, 3,
      [&](Lent& lent) {
        cuda_kernels::launch_recurrent_step(nullptr, sizes.gates, sizes.dtype,
                                            {.rows = sizes.rows,
                                             .length = sizes.length,
                                             .input_part = lent.at(0),
                                             .product = lent.at(1),
                                             .bias = lent.at(2),
                                             .hidden = lent.at(3),
                                             .cell = lent.at(4),
                                             .output = lent.at(5),
                                             .kept = lent.at(6),
                                             .hidden_before = lent.at(7),
                                             .cell_before = lent.at(8)});
      },
      [&](const std::vector<Array>& in) {
        backend_for(cpu()).recurrent_step(sizes.gates, in[0], in[1], in[2], in[3], in[4], in[5], in[6], in[7], in[8]);
      });
}

void check_gradient(samples::RandomViews& views, const Sizes& sizes) {
  const auto state_if = [&](bool wanted) { return wanted ? sizes.made(views, sizes.rows, sizes.length) : Array(); };
  const auto blocks_if = [&](bool wanted) {
    return wanted ? sizes.made(views, sizes.rows, sizes.blocks() * sizes.length) : Array();
  };
  const bool is_gru = sizes.gates == RecurrentGates::gru;
  const std::vector<Operand> operands{{sizes.made(views, sizes.rows, sizes.kept() * sizes.length), Use::read},
                                      {state_if(is_gru), Use::read},
                                      {state_if(sizes.has_cell()), Use::read},
                                      {state_if(true), Use::read},
                                      {blocks_if(true), Use::written},
                                      {blocks_if(is_gru), Use::written},
                                      {state_if(true), Use::changed},
                                      {state_if(sizes.has_cell()), Use::changed}};
  check(
      operands, 4,
      [&](Lent& lent) {
        cuda_kernels::launch_recurrent_step_gradient(nullptr, sizes.gates, sizes.dtype,
                                                     {.rows = sizes.rows,
                                                      .length = sizes.length,
                                                      .kept = lent.at(0),
                                                      .hidden_before = lent.at(1),
                                                      .cell_before = lent.at(2),
                                                      .gradient = lent.at(3),
                                                      .hidden_gradient = lent.at(6),
                                                      .cell_gradient = lent.at(7),
                                                      .input_gradient = lent.at(4),
                                                      .product_gradient = lent.at(5)});
      },
      [&](const std::vector<Array>& in) {
        backend_for(cpu()).recurrent_step_gradient(sizes.gates, in[0], in[1], in[2], in[3], in[4], in[5], in[6], in[7]);
      });
}

TEST_CASE("steps of recurrent networks, and their gradients") {
  samples::RandomViews views(47);
  for (const DType dtype : {DType::f32, DType::f64})
    for (const RecurrentGates gates : kAll)
      for (const auto& [rows, length] : {std::pair{1, 1}, {3, 5}, {2, 33}, {7, 64}}) {
        CAPTURE(static_cast<int>(gates));
        CAPTURE(rows);
        CAPTURE(length);
        const Sizes sizes{gates, dtype, rows, length};
        for (const bool keeps : {true, false}) check_step(views, sizes, keeps, rows != 3);
        check_gradient(views, sizes);
      }
}

}  // namespace
}  // namespace tutti

TEST_SUITE_END();
