// SPDX-License-Identifier: Apache-2.0
#include <tutti/onnx/onnx_model.h>

#include <tutti/autodiff/operations.h>
#include <tutti/tests/error_text.h>
#include <tutti/tests/exchange/temporary_folder.h>
#include <tutti/tests/onnx/model_writer.h>

#include <cstddef>
#include <random>
#include <string>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

/// "nothing", or the error.
std::string read(const TemporaryFolder& folder, const std::string& bytes) {
  write_file(folder.file("model.onnx"), bytes);
  return error_of([&] { OnnxModel(folder.file("model.onnx")); });
}

std::string read(const std::string& bytes) {
  const TemporaryFolder folder;
  return read(folder, bytes);
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("onnx: what is no model is refused with the place") {
  CHECK(contains(read(""), "is empty"));
  CHECK(contains(read("PK\x03\x04 no such thing"), "model.onnx"));
  CHECK(contains(read(Message().integer(1, 9).bytes()), "it has no graph"));
  CHECK(contains(read(std::string("\x3a\x7f", 2)), "is cut off, at offset 2"));
  CHECK(contains(read(std::string("\x0b\x00", 2)), "a field is of type 3"));
  CHECK(contains(read(std::string(11, '\xff')), "more than 64 bits"));
  CHECK(contains(error_of([] { OnnxModel("/nowhere/model.onnx"); }), "/nowhere/model.onnx"));
  CHECK(contains(error_of([] { OnnxModel("/tmp"); }), "/tmp"));
  CHECK(contains(read(Message().integer(7, 1).bytes()), "of another type than ONNX has"));
  const std::string functions = model_bytes(small_layer()) + Message().text(25, "").bytes();
  CHECK(contains(read(functions), "functions of its own"));
}

TEST_CASE("onnx: tensors that are not what they say are refused by name") {
  const auto with = [](const Message& weight) {
    Graph graph = small_layer();
    graph.initializers[0] = weight;
    return read(model_bytes(graph));
  };
  CHECK(contains(with(tensor("weight", {2, 4}, std::vector<float>(6))),
                 "\"weight\" has 24 bytes, and its shape [2, 4] asks for 32"));
  CHECK(contains(with(tensor("weight", {-2, 3}, std::vector<float>(6))), "\"weight\" has a length -2"));
  CHECK(contains(with(tensor("weight", {std::int64_t{1} << 40, std::int64_t{1} << 40}, std::vector<float>(6))),
                 "has a length"));
  CHECK(contains(with(tensor("weight", {2, 3}, 8, "")), "\"weight\" is of ONNX's type 8"));
  CHECK(contains(with(Message().integer(1, 6).integer(2, 1).text(8, "weight").number(4, 1.0F)),
                 "\"weight\" has 1 elements"));
}

TEST_CASE("onnx: files with any byte changed, or cut anywhere, are read or refused") {
  const TemporaryFolder folder;
  const std::string whole = model_bytes(small_layer());
  REQUIRE(read(folder, whole) == "nothing");
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const std::string error = read(folder, whole.substr(0, length));
    if (!contains(error, "model.onnx")) FAIL_CHECK("cut at ", length, ": ", error);
  }
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    std::string changed = whole;
    for (unsigned n = 0; n <= random() % 3; ++n) changed[random() % changed.size()] = static_cast<char>(random());
    // Whatever it says, nothing but an Error comes of it, nor of running what was read.
    write_file(folder.file("model.onnx"), changed);
    (void)error_of([&] { (void)OnnxModel(folder.file("model.onnx")).run(std::vector<Tensor>{zeros({1, 3})}); });
  }
}
