// SPDX-License-Identifier: Apache-2.0
// Any file is loaded or refused, and a refused one changes nothing.
#include <tutti/backend/error.h>
#include <tutti/exchange/files/file_arrays.h>
#include <tutti/exchange/module_state.h>
#include <tutti/tests/fuzz/input_file.h>
#include <tutti/tests/fuzz/require.h>
#include <tutti/train/checkpoints/checkpoint.h>
#include <tutti/train/checkpoints/checkpoint_manifest.h>
#include <tutti/train/checkpoints/crc32.h>

#include <string>

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

/// With a checksum that is right, so that what comes after it is looked at: as it is, or as a list of parts.
void read_manifest(const std::string& rest) {
  Crc32 checksum;
  checksum.add(rest.data(), rest.size());
  try {
    parse_manifest("manifest", "{\"crc32\": \"" + checksum.text() + rest);
  } catch (const DataError&) {
  }
}

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
  const std::string text(reinterpret_cast<const char*>(data), bytes);
  read_manifest(text);
  read_manifest("\",\"format\":1,\"step\":1,\"epoch\":0,\"window\":0,\"files\":[],\"parts\":" + text + "}");
  return 0;
}
