// SPDX-License-Identifier: Apache-2.0
// write_seeds FOLDER: makes FOLDER/<format>/ with small valid files, from which the fuzzer starts.
#include <tutti/backend/raise.h>
#include <tutti/exchange/npy.h>
#include <tutti/exchange/npz.h>
#include <tutti/exchange/safetensors.h>
#include <tutti/train/checkpoints/checkpoint.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

using namespace tutti;

namespace {

struct Small : Module {
  Tensor weight{Array::arange(6, DType::f32, cpu()).reshape({2, 3}), true};
  Tensor steps{Array::full({}, 7, DType::i64, cpu())};
  void visit(MemberVisitor& v) override {
    v.parameter("weight", weight);
    v.buffer("steps", steps);
  }
};

std::string seed(const std::filesystem::path& folder, const std::string& format, const std::string& name) {
  std::filesystem::create_directories(folder / format);
  return (folder / format / name).string();
}

void write(const std::string& path, const std::string& contents) { std::ofstream(path, std::ios::binary) << contents; }

/// Of one row of two elements, in each of IDX's types; of CSV with a header and quotes, and of whole numbers.
void write_data_seeds(const std::filesystem::path& folder) {
  for (const auto& [code, bytes] : {std::pair{8, 1}, {9, 1}, {11, 2}, {12, 4}, {13, 4}, {14, 8}}) {
    const std::string head = {0, 0, static_cast<char>(code), 2, 0, 0, 0, 1, 0, 0, 0, 2};
    write(seed(folder, "idx", std::to_string(code)), head + std::string(static_cast<std::size_t>(2 * bytes), '\x3f'));
  }
  write(seed(folder, "csv", "header"), "\001a,\"b\"\"\"\r\n1.5,\"2\"\r\n-3e4, 4\n");
  write(seed(folder, "csv", "whole"), "\0061,0\n+2,127\n");
}

/// Of the first operations, with an integer of each form.
void write_size_seeds(const std::filesystem::path& folder) {
  for (const char form : {'\x00', '\x41', '\x7f', '\xbe', '\xff'})
    write(seed(folder, "sizes", std::to_string(static_cast<unsigned char>(form))),
          std::string({form, 0, 1, 0, 0, 0, form, 1, 2, 3, 4, 5, 6, 7, 8, 1, 0, form}));
}

void write_seeds(const std::filesystem::path& folder) {
  NamedArrays all = {{"scalar", Array::full({}, 7, DType::f64, cpu())},
                     {"empty", Array::zeros({0, 2}, DType::f32, cpu())}};
  for (const DType dtype : kAllDTypes)
    all.emplace_back(std::string(to_string(dtype)), Array::arange(4, DType::i64, cpu()).cast(dtype).reshape({2, 2}));
  for (const auto& [name, array] : all) {
    write_safetensors(seed(folder, "safetensors", name), {{{name, array}}, {{"format", "pt"}}});
    try {
      write_npy(seed(folder, "npy", name), array);
    } catch (const DTypeError&) {  // NumPy has no such type
    }
  }
  write_safetensors(seed(folder, "safetensors", "all"), {all, {}});
  const NamedArrays two = {all[0], all[2]};
  write_npz(seed(folder, "npz", "stored"), two);
  write_npz(seed(folder, "npz", "deflated"), two, {.deflate = true});
  write_npz(seed(folder, "npz", "none"), {});
  write_data_seeds(folder);
  write_size_seeds(folder);
  Small module;
  save_checkpoint(seed(folder, "checkpoint", "whole"), module, nullptr, {{"epoch", "3"}});
  write_safetensors(seed(folder, "checkpoint", "state"), {{{"weight", module.weight.array()}}, {}});
}

}  // namespace

int main(int count, char** arguments) {
  try {
    if (count != 2) raise("usage: write_seeds FOLDER");
    write_seeds(arguments[1]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
