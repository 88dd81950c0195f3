// SPDX-License-Identifier: Apache-2.0
// Nodes whose attributes and operands do not fit each other are errors that name the node, whatever they say.
#include <tutti/onnx/onnx_model.h>

#include <tutti/autodiff/operations.h>
#include <tutti/tests/error_text.h>
#include <tutti/tests/exchange/temporary_folder.h>
#include <tutti/tests/onnx/model_writer.h>

#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

Message integers_attribute(const std::string& name, const std::vector<std::int64_t>& values) {
  Message message;
  message.text(1, name);
  for (const std::int64_t value : values) message.integer(8, value);
  return message.integer(20, 7);
}
Message text_attribute(const std::string& name, const std::string& value) {
  return Message().text(1, name).text(4, value).integer(20, 3);
}
Message integers(const std::string& name, const std::vector<std::int64_t>& values) {
  return tensor(name, {static_cast<std::int64_t>(values.size())}, 7, raw(values));
}

/// What a model of one node says of an input of ones; "nothing" if it computes.
std::string said(const Message& node, const std::vector<Message>& initializers, const Shape& x,
                 std::int64_t opset = 20) {
  const TemporaryFolder folder;
  write_file(folder.file("model.onnx"), model_bytes({.nodes = {node},
                                                     .initializers = initializers,
                                                     .inputs = {Message().text(1, "x")},
                                                     .outputs = {Message().text(1, "y")}},
                                                    opset));
  return error_of([&] { (void)OnnxModel(folder.file("model.onnx")).run(std::vector<Tensor>{ones(x)}); });
}

}  // namespace

TEST_CASE("onnx: nodes that do not fit are told by name") {
  const std::vector<float> many(42, 2.0F);
  const Message weight = tensor("w", {1, 1, 3, 3}, std::vector<float>(9));
  struct Case {
    Message node;
    std::vector<Message> initializers;
    Shape x;
    std::string problem;
  };
  for (const Case& each : std::vector<Case>{
           {node("Resize", {"x", "", "s"}, {"y"}),
            {tensor("s", {42}, many)},
            {1, 1, 4, 4},
            "Resize \"of y\": scales or sizes are not one for each axis"},
           {node("Resize", {"x", "", "s"}, {"y"}, {text_attribute("mode", "linear")}),
            {tensor("s", {1}, {2.0F})},
            {4},
            "three to five axes"},
           {node("Resize", {"x", "", "s"}, {"y"}), {tensor("s", {1}, {0.1F})}, {4}, "axis 0 of length 4 would have 0"},
           {node("Resize", {"x", "", "", "s"}, {"y"}), {integers("s", {2})}, {0}, "axis 0 of length 0 would have 2"},
           {node("Resize", {"x", "", "s"}, {"y"}, {integers_attribute("axes", {7})}),
            {tensor("s", {1}, {2.0F})},
            {1, 1, 4, 4},
            "axis 7 of 4"},
           {node("Resize", {"x", "", "s"}, {"y"}, {text_attribute("mode", "linear")}),
            {tensor("s", {4}, {1, 1, 1.1F, 1})},
            {1, 1, 7, 7},
            "Resize \"of y\": factor 1.1"},
           {node("ConvTranspose", {"x", "w"}, {"y"}, {integers_attribute("output_padding", {1})}),
            {weight},
            {1, 1, 4, 4},
            "output_padding or output_shape does not fit"},
           {node("ConvTranspose", {"x", "w"}, {"y"}, {integers_attribute("output_shape", {1})}),
            {weight},
            {1, 1, 4, 4},
            "output_padding or output_shape does not fit"},
           {node("Conv", {"x", "w"}, {"y"},
                 {integers_attribute("strides", {0, 1}), text_attribute("auto_pad", "SAME_UPPER")}),
            {weight},
            {1, 1, 4, 4},
            "above 0"},
           {node("Conv", {"x", "w"}, {"y"}, {text_attribute("auto_pad", "SAME")}),
            {weight},
            {1, 1, 4, 4},
            "auto_pad is 'SAME'"},
           {node("Conv", {"x", "w"}, {"y"}), {tensor("w", {1}, {1.0F})}, {1, 1, 4, 4}, "fewer than three axes"},
           {node("MaxPool", {"x"}, {"y"},
                 {integers_attribute("kernel_shape", {2, 2}), integers_attribute("strides", {0, 0}),
                  integer_attribute("ceil_mode", 1)}),
            {},
            {1, 1, 4, 4},
            "above 0"},
           {node("LRN", {"x"}, {"y"}, {integer_attribute("size", 1)}), {}, {}, "channels"},
           {node("Split", {"x"}, {"y"}, {integer_attribute("num_outputs", 0)}), {}, {4}, "num_outputs"},
           {node("DepthToSpace", {"x"}, {"y"}, {integer_attribute("blocksize", 0)}), {}, {1, 4, 2, 2}, "blocksize"},
           {node("GroupNormalization", {"x", "w", "w"}, {"y"}, {integer_attribute("num_groups", 0)}),
            {tensor("w", {2}, {1, 1})},
            {1, 2, 2},
            "num_groups"},
           {node("GatherND", {"x", "i"}, {"y"}), {integers("i", {0, 5})}, {2, 3}, "GatherND \"of y\""},
           {node("GatherND", {"x", "i"}, {"y"}), {integers("i", {1, -4})}, {2, 3}, "GatherND \"of y\""},
           {node("TopK", {"x", "i"}, {"y"}), {integers("i", {})}, {3}, "k has to be one number"},
           {node("Flatten", {"x"}, {"y"}, {integer_attribute("axis", -9)}), {}, {2, 3}, "axis -9 of 2"},
           {node("Softmax", {"x"}, {"y"}, {integer_attribute("axis", 4)}), {}, {2, 3}, "Softmax \"of y\": "},
           {node("MatMul", {"i", "i"}, {"y"}), {integers("i", {1, 2})}, {1}, "products of integers"},
           {node("LSTM", {"x", "w", "w"}, {"y"}, {text_attribute("direction", "backward")}),
            {tensor("w", {1, 4, 1}, std::vector<float>(4))},
            {1, 1, 1},
            "direction is 'backward'"}}) {
    const std::string error = said(each.node, each.initializers, each.x);
    CHECK_MESSAGE(error.find(each.problem) != std::string::npos, each.problem, " is not in: ", error);
  }
}

TEST_CASE("onnx: resizing before opset 11 is Upsample's") {
  const Message nearest = node("Resize", {"x", "s"}, {"y"});
  const Message linear = node("Resize", {"x", "s"}, {"y"}, {text_attribute("mode", "linear")});
  const std::vector<Message> scales{tensor("s", {4}, {1, 1, 2, 2})};
  CHECK(said(nearest, scales, {1, 1, 2, 2}, 10) == "nothing");
  CHECK(said(linear, scales, {1, 1, 2, 2}, 10).find("asymmetric") != std::string::npos);
}

TEST_CASE("onnx: what depends on the opset, and edges of ranges, are as the schemas say") {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  struct Case {
    Message node;
    std::vector<Message> initializers;
    std::int64_t opset;
    std::vector<float> y;  // of x = 0, 1, 2, ...
    Shape x;
  };
  const std::vector<Message> backwards{integers("b", {-100}), integers("e", {-200}), integers("a", {0}),
                                       integers("s", {-1})};
  const auto mask = [](std::int64_t opset) {  // one value for both keys; x is query, key and value
    return Case{node("Attention", {"x", "x", "x", "m"}, {"y"}),
                {tensor("m", {2, 1}, {0, 0})},
                opset,
                opset < 24 ? std::vector<float>{0.5F, 0.7310586F} : std::vector<float>{0, 0},
                {1, 1, 2, 1}};
  };
  for (const Case& each : std::vector<Case>{
           {node("Slice", {"x", "b", "e", "a", "s"}, {"y"}), backwards, 13, {0}, {5}},
           {node("Trilu", {"x", "k"}, {"y"}), {tensor("k", {}, 7, raw(std::vector{kMost}))}, 14, {0, 0, 0, 0}, {2, 2}},
           {node("Resize", {"x", "s"}, {"y"}), {tensor("s", {4}, {1, 1, 0.6F, 0.6F})}, 10, {0, 2}, {1, 1, 2, 4}},
           {node("Resize", {"x", "", "s"}, {"y"}), {tensor("s", {1}, {1.0F / 3})}, 13, {1, 4}, {6}},
           {node("OneHot", {"i", "d", "x"}, {"y"}), {integers("i", {-1}), integers("d", {2})}, 9, {0, 0}, {2}},
           {node("OneHot", {"i", "d", "x"}, {"y"}), {integers("i", {-1}), integers("d", {2})}, 11, {0, 1}, {2}},
           mask(23),
           mask(24)}) {
    const TemporaryFolder folder;
    write_file(folder.file("model.onnx"), model_bytes({.nodes = {each.node},
                                                       .initializers = each.initializers,
                                                       .inputs = {Message().text(1, "x")},
                                                       .outputs = {Message().text(1, "y")}},
                                                      each.opset));
    std::int64_t size = 1;
    for (const std::int64_t length : each.x) size *= length;
    const Tensor x = reshape(arange(0, size, {.dtype = DType::f32}), each.x);
    const std::vector<float> y = OnnxModel(folder.file("model.onnx")).run(std::vector<Tensor>{x})[0].to_vector<float>();
    REQUIRE(y.size() == each.y.size());
    for (std::size_t i = 0; i < y.size(); ++i) CHECK(y[i] == doctest::Approx(each.y[i]));
  }
}

TEST_CASE("onnx: a name that two values have is told") {
  const TemporaryFolder folder;
  Graph graph = small_layer();
  graph.initializers.push_back(tensor("sum", {1}, {1.0F}));
  write_file(folder.file("model.onnx"), model_bytes(graph));
  CHECK(error_of([&] { OnnxModel(folder.file("model.onnx")); }).find("\"sum\" is made twice") != std::string::npos);
}

TEST_CASE("onnx: factors, states, and what settings are made of are no parameters") {
  const TemporaryFolder folder;
  Graph graph{.nodes = {node("Mul", {"x", "half"}, {"h"}), node("Mul", {"h", "scale"}, {"s"}),
                        node("Concat", {"ones", "twos"}, {"scales"}, {integer_attribute("axis", 0)}),
                        node("Resize", {"s", "", "scales"}, {"y"})},
              .inputs = {Message().text(1, "x")},
              .outputs = {Message().text(1, "y")}};
  graph.initializers = {tensor("half", {1}, {0.5F}), tensor("scale", {1, 1, 2, 2}, {1, 2, 3, 4}),
                        tensor("ones", {2}, {1, 1}), tensor("twos", {2}, {2, 2})};
  graph.nodes[3] =
      node("Resize", {"s", "", "scales"}, {"y"},
           {text_attribute("coordinate_transformation_mode", "asymmetric"), text_attribute("nearest_mode", "floor")});
  write_file(folder.file("model.onnx"), model_bytes(graph));
  OnnxModel model(folder.file("model.onnx"), {.trainable = true});
  REQUIRE(model.named_parameters().size() == 1);
  CHECK(model.named_parameters()[0].first == "scale");
  CHECK(model(ones({1, 1, 2, 2})).to_vector<float>()[15] == 2.0F);
}

TEST_CASE("onnx: statistics and settings are no parameters") {
  const TemporaryFolder folder;
  Graph graph{.nodes = {node("BatchNormalization", {"x", "scale", "bias", "mean", "variance"}, {"b"}),
                        node("Clip", {"b", "low"}, {"y"})},
              .inputs = {Message().text(1, "x")},
              .outputs = {Message().text(1, "y")}};
  for (const char* name : {"scale", "bias", "mean", "variance"})
    graph.initializers.push_back(tensor(name, {2}, {4.0F, 1.0F}));
  graph.initializers.push_back(tensor("low", {}, {0.0F}));
  write_file(folder.file("model.onnx"), model_bytes(graph));
  OnnxModel model(folder.file("model.onnx"), {.trainable = true});
  std::vector<std::string> parameters;
  for (const auto& [name, value] : model.named_parameters()) parameters.push_back(name);
  CHECK(parameters == std::vector<std::string>{"scale", "bias"});
  CHECK(model.named_buffers().size() == 3);
  // (x - mean) / sqrt(variance + 1e-5) scale + bias, at least 0
  const std::vector<float> y = model(tensor({{6.0, 0.5}})).to_vector<float>();
  CHECK(y[0] == doctest::Approx(8.0).epsilon(1e-4));
  CHECK(y[1] == doctest::Approx(0.5).epsilon(1e-4));
}
