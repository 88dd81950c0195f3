// SPDX-License-Identifier: Apache-2.0
#include <tutti/onnx/onnx_model.h>

#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
#include <tutti/nn/captured_forward.h>
#include <tutti/nn/loss.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/error_text.h>
#include <tutti/tests/exchange/temporary_folder.h>
#include <tutti/tests/onnx/model_writer.h>

#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

std::string written(const TemporaryFolder& folder, const std::string& bytes) {
  write_file(folder.file("model.onnx"), bytes);
  return folder.file("model.onnx");
}

std::string error_of_model(const Graph& graph, std::int64_t opset = 20) {
  const TemporaryFolder folder;
  return error_of([&] { OnnxModel(written(folder, model_bytes(graph, opset))); });
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("onnx: a layer of a file computes, says what it takes, and shows its weights") {
  const TemporaryFolder folder;
  OnnxModel model(written(folder, model_bytes(small_layer())));
  CHECK(model.opset() == 20);
  REQUIRE(model.inputs().size() == 1);
  CHECK(model.inputs()[0].name == "x");
  CHECK(model.inputs()[0].dtype == DType::f32);
  CHECK(*model.inputs()[0].shape == std::vector<std::string>{"n", "3"});
  CHECK(model.outputs()[0].name == "y");
  const Tensor x = tensor({{1.0, 0.0, 0.0}, {0.0, 1.0, -1.0}});
  CHECK(model(x).to_vector<float>() == std::vector<float>{1.5F, 0, 0, 2});
  const NamedTensors members = model.named_parameters();
  REQUIRE(members.size() == 2);
  CHECK(members[0].first == "weight");
  CHECK(members[1].first == "bias");
  CHECK(!members[0].second.requires_grad());
}

TEST_CASE("onnx: a model is captured and replayed; shapes that are inputs are no constants") {
  const TemporaryFolder folder;
  const auto graph = [](bool is_input) {
    Graph made{.nodes = {node("Reshape", {"x", "shape"}, {"r"}), node("MatMul", {"r", "weight"}, {"y"})},
               .initializers = {tensor("weight", {3, 2}, {1, 2, 3, 4, 5, 6})},
               .inputs = {value("x", {2, 6})},
               .outputs = {value("y", {4, 2})}};
    if (is_input)
      made.inputs.push_back(value("shape", {2}, 7));
    else
      made.initializers.push_back(tensor("shape", {2}, 7, raw(std::vector<std::int64_t>{4, 3})));
    return made;
  };
  const auto input = [](double first) { return reshape(arange(12).to(DType::f32) + first, {2, 6}); };
  OnnxModel model(written(folder, model_bytes(graph(false))));
  CapturedForward forward(model);
  for (int i = 0; i < 8; ++i) {
    const Inference inference;
    CHECK(forward(input(i)).to_vector<float>() == model(input(i)).to_vector<float>());
  }
  CHECK(forward.report().replayed == 3);  // the other five: eager, captured twice, checked twice
  OnnxModel dependent(written(folder, model_bytes(graph(true))));
  CapturedForward refused(dependent, [&](std::span<const Tensor> in) { return dependent.run(in); });
  const Tensor shape(Array::from(std::vector<std::int64_t>{4, 3}, {2}));
  refused({input(0), shape});
  CHECK_THROWS_WITH_AS(refused({input(0), shape}), doctest::Contains("on the host"), CaptureError);
}

TEST_CASE("onnx: lengths of one name are one length") {
  const TemporaryFolder folder;
  const Graph graph{.nodes = {node("Add", {"a", "b"}, {"y"})},
                    .inputs = {value("a", {0, 2}), value("b", {0, 2})},
                    .outputs = {value("y", {0, 2})}};
  const OnnxModel model(written(folder, model_bytes(graph)));
  CHECK(model.run(std::vector<Tensor>{ones({3, 2}), ones({3, 2})})[0].shape() == Shape{3, 2});
  CHECK(error_of([&] {
          (void)model.run(std::vector<Tensor>{ones({3, 2}), ones({1, 2})});
        }) == "[onnx] input \"b\" is [1, 2]: its n is 1, and 3 in input \"a\"");
}

TEST_CASE("onnx: a model of a file is trained, and copies share weights") {
  const TemporaryFolder folder;
  OnnxModel model(written(folder, model_bytes(small_layer())), {.trainable = true});
  Sgd optimizer(model.parameters(), 0.05);
  const Tensor x = tensor({{1.0, 2.0, 0.5}});
  const Tensor wanted = tensor({{1.0, 2.0}});
  double first = 0.0;
  double last = 0.0;
  for (int i = 0; i < 50; ++i) {
    optimizer.zero_grad();
    const Tensor loss = mean(square(model(x) - wanted));
    (i == 0 ? first : last) = loss.item();
    backward(loss);
    optimizer.step();
  }
  CHECK(last < first / 4);
  OnnxModel copy = model;
  CHECK(copy(x).to_vector<float>() == model(x).to_vector<float>());
  copy.detach_members_to(cpu(1));
  CHECK(copy(x.to(cpu(1))).to_vector<float>() == model(x).to_vector<float>());
}

TEST_CASE("onnx: several threads run one model") {
  const TemporaryFolder folder;
  const OnnxModel model(written(folder, model_bytes(small_layer())));
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      const Inference inference;
      for (int i = 0; i < 50; ++i) {
        const Tensor x = full({3, 3}, static_cast<double>(t + 1));
        const std::vector<float> y = model.forward(x).to_vector<float>();
        if (y[0] != 6.0F * static_cast<float>(t + 1) + 0.5F || y[1] != 0.0F) ++wrong[static_cast<std::size_t>(t)];
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(4));
}

TEST_CASE("onnx: inputs that are not as the file says are refused by name") {
  const TemporaryFolder folder;
  const OnnxModel model(written(folder, model_bytes(small_layer())));
  CHECK(contains(error_of([&] { (void)model.run({}); }), "has 1 inputs, not 0"));
  CHECK(contains(error_of([&] { (void)model(zeros({2, 4})); }), "input \"x\" is [2, 4], not [n, 3]"));
  CHECK(contains(error_of([&] { (void)model(zeros({2, 3}, {.dtype = DType::f64})); }), "input \"x\" is f64, not f32"));
  CHECK(contains(error_of([&] { (void)model(Tensor()); }), "undefined"));
}

TEST_CASE("onnx: what a model needs and is not here is named at once, all of it") {
  Graph graph = small_layer();
  graph.nodes.push_back(node("NonMaxSuppression", {"y"}, {"a"}));
  graph.nodes.push_back(node("Frobnicate", {"y"}, {"b"}));
  graph.nodes.push_back(node("Frobnicate", {"y"}, {"c"}));
  CHECK(contains(error_of_model(graph), "operators that are not here: Frobnicate (2), NonMaxSuppression (1)"));
  graph = small_layer();
  graph.nodes.push_back(node("Add", {"y", "nobody"}, {"z"}));
  CHECK(contains(error_of_model(graph), "Add \"of z\" needs \"nobody\", which nothing before it makes"));
  graph = small_layer();
  graph.outputs = {value("nothing", {1})};
  CHECK(contains(error_of_model(graph), "nothing makes its output \"nothing\""));
  CHECK(contains(error_of_model(small_layer(), 6), "it is of opset 6, and those from 7 to 28 are read"));
  CHECK(contains(error_of_model(small_layer(), 29), "it is of opset 29"));
}

TEST_CASE("onnx: an attribute that is not known is an error, not ignored") {
  const TemporaryFolder folder;
  Graph graph = small_layer();
  graph.nodes[1] = node("Relu", {"sum"}, {"y"}, {integer_attribute("leak", 1)});
  const OnnxModel model(written(folder, model_bytes(graph)));
  CHECK(contains(error_of([&] { (void)model(zeros({1, 3})); }), "Relu \"of y\": its attribute leak is not known"));
}

TEST_CASE("onnx: weights in a file beside the model, and nowhere else") {
  const TemporaryFolder folder;
  write_file(folder.file("weights.bin"), "xxxx" + raw(std::vector<float>{1, 2, 3, -1, -2, -3}));
  const auto elsewhere = [&](const std::string& location, const std::string& offset, const std::string& length) {
    Message message;
    message.integer(1, 2).integer(1, 3).integer(2, 1).text(8, "weight");
    message.message(13, Message().text(1, "location").text(2, location));
    message.message(13, Message().text(1, "offset").text(2, offset));
    message.message(13, Message().text(1, "length").text(2, length));
    message.integer(14, 1);
    Graph graph = small_layer();
    graph.initializers[0] = message;
    return written(folder, model_bytes(graph));
  };
  const OnnxModel model(elsewhere("weights.bin", "4", "24"));
  CHECK(model(tensor({{1.0, 0.0, 0.0}})).to_vector<float>() == std::vector<float>{1.5F, 0});
  for (const auto& [location, offset, length, problem] :
       std::vector<std::array<std::string, 4>>{{"../weights.bin", "0", "24", "does not lie beside the model"},
                                               {"/etc/passwd", "0", "24", "does not lie beside the model"},
                                               {"none.bin", "0", "24", "\"weight\" is in none.bin, which is not there"},
                                               {"weights.bin", "5", "24", "weights.bin ends before \"weight\" does"},
                                               {"weights.bin", "99999999999999999999", "24", "is no number"},
                                               {"weights.bin", "18446744073709551615", "24", "ends before"},
                                               {"weights.bin", "4", "20", "has 20 bytes"}}) {
    CAPTURE(problem);
    CHECK(contains(error_of([&] { OnnxModel(elsewhere(location, offset, length)); }), problem));
  }
}
