// SPDX-License-Identifier: Apache-2.0
// Any file is loaded or refused, and a refused one changes nothing.
#include <tutti/backend/error.h>
#include <tutti/exchange/file_arrays.h>
#include <tutti/exchange/module_state.h>
#include <tutti/tests/fuzz/input_file.h>
#include <tutti/tests/fuzz/require.h>
#include <tutti/train/checkpoint.h>

using namespace tutti;

namespace {

/// What tests/fuzz/write_seeds.cpp saves.
struct Small : Module {
  Tensor weight{Array::zeros({2, 3}, DType::f32, cpu()), true};
  Tensor steps{Array::zeros({}, DType::i64, cpu())};
  void visit(MemberVisitor& v) override {
    v.parameter("weight", weight);
    v.buffer("steps", steps);
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const testing::InputFile input(data, bytes);
  Small module;
  const Array weight = module.weight.array();
  try {
    load_checkpoint(input.path(), module);
  } catch (const DataError&) {
    testing::require(module.weight.array().storage() == weight.storage());
  }
  try {
    load_state(module, input.path(), {.strict = bytes % 2 == 0});
  } catch (const DataError&) {
  }
  return 0;
}
