// SPDX-License-Identifier: Apache-2.0
#include <tutti/exchange/module_state.h>

#include <tutti/backend/error.h>
#include <tutti/backend/random.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/normalization.h>
#include <tutti/tests/exchange/complaint.h>
#include <tutti/tests/exchange/python.h>

#include <doctest/doctest.h>

#include <sstream>

using namespace tutti;
using namespace tutti::testing;

namespace {

struct Net : Module {
  Linear fc1, fc2;
  Tensor steps{Array::zeros({}, DType::i64, cpu())};

  explicit Net(Generator random = Generator(1)) : fc1(3, 2, random), fc2(2, 1, random, {.bias = false}) {}
  void visit(MemberVisitor& v) override {
    v.module("fc1", fc1);
    v.module("fc2", fc2);
    v.buffer("steps", steps);
  }
};

NamedArrays fitting() {
  return {{"fc2.weight", Array::full({1, 2}, 2, DType::f64, cpu())},
          {"fc1.weight", Array::full({2, 3}, 1, DType::f32, cpu())},
          {"fc1.bias", Array::full({2}, 3, DType::f32, cpu(1))},
          {"steps", Array::full({}, 9, DType::i32, cpu())}};
}

std::vector<double> values(Net& net) {
  std::vector<double> all;
  for (const auto& [name, array] : module_state(net))
    for (const double value : array.cast(DType::f64).to_vector<double>()) all.push_back(value);
  return all;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("module state: gives copies of the values, in the module's types and on its devices") {
  Net net;
  const void* const identity = net.fc1.weight.identity();
  const NamedArrays given = fitting();
  CHECK(load_state(net, given).empty());
  CHECK(values(net) == std::vector<double>{1, 1, 1, 1, 1, 1, 3, 3, 2, 2, 9});
  CHECK(net.fc1.weight.identity() == identity);
  CHECK(net.fc2.weight.dtype() == DType::f32);
  CHECK(net.steps.dtype() == DType::i64);
  CHECK(net.fc1.bias.device() == cpu());
  CHECK(net.fc1.weight.array().storage() != given[1].second.storage());
}

TEST_CASE("module state: strict lists all that does not fit, and changes nothing") {
  Net net;
  const std::vector<double> before = values(net);
  NamedArrays given = fitting();
  given[0].second = Array::zeros({2, 1}, DType::f32, cpu());
  given[2].first = "fc1.offset";
  given[3].second = Array::zeros({}, DType::f32, cpu());
  const auto loading = [&] { load_state(net, given); };
  CHECK_THROWS_WITH_AS(loading(),
                       doctest::Contains("missing fc1.bias\n"
                                         "unexpected fc1.offset\n"
                                         "mismatched fc2.weight: f32 [2, 1] given, f32 [1, 2] in the module\n"
                                         "mismatched steps: f32 [] given, i64 [] in the module\n"),
                       DataError);
  CHECK(values(net) == before);

  const StateReport report = load_state(net, given, {.strict = false});
  CHECK(report.missing == Names{"fc1.bias"});
  CHECK(report.unexpected == Names{"fc1.offset"});
  CHECK(report.mismatched.size() == 2);
  CHECK(net.fc1.weight.to_vector<float>() == std::vector<float>(6, 1.0F));
}

TEST_CASE("module state: names are mapped, left out, and given once") {
  Net net;
  NamedArrays given = fitting();
  for (auto& [name, array] : given) name = "model." + name;
  given.emplace_back("optimizer.lr", Array::zeros({}, DType::f32, cpu()));
  const auto rename = [strip = name_with_prefix("model.", "")](const std::string& name) {
    return name.starts_with("optimizer.") ? std::string() : strip(name);
  };
  CHECK(load_state(net, given, {.rename = rename}).empty());
  CHECK(net.fc1.bias.to_vector<float>() == std::vector<float>{3, 3});
  given.emplace_back("fc1.bias", Array::zeros({2}, DType::f32, cpu()));
  CHECK_THROWS_WITH_AS(load_state(net, given, {.rename = rename}),
                       doctest::Contains("fc1.bias: given twice, the second time by fc1.bias"), DataError);
  given.pop_back();
  CHECK_THROWS_WITH_AS(load_state(net, given, {.rename = name_with_prefix("model.", "my.")}),
                       doctest::Contains("unexpected my.fc2.weight (from model.fc2.weight)"), DataError);
}

TEST_CASE("module state: torch's count of batches is passed over beside running statistics, and only there") {
  BatchNorm norm(2);
  NamedArrays given = copy_module_state(norm);
  given.emplace_back("num_batches_tracked", Array::full({}, 7, DType::i64, cpu()));
  CHECK(load_state(norm, given).empty());
  CHECK(load_state(norm, given, {.strict = false}).empty());
  given.back().second = Array::full({1}, 7, DType::i64, cpu());
  CHECK_THROWS_WITH_AS(load_state(norm, given), doctest::Contains("unexpected num_batches_tracked"), DataError);
  given.back() = {"other.num_batches_tracked", Array::full({}, 7, DType::i64, cpu())};
  CHECK_THROWS_WITH_AS(load_state(norm, given), doctest::Contains("unexpected other.num_batches_tracked"), DataError);
}

TEST_CASE("module state: a tied weight may come by either name, or by both if the values agree") {
  struct Tied : Module {
    Linear in, out;
    explicit Tied(Generator random = Generator(1))
        : in(2, 2, random, {.bias = false}), out(2, 2, random, {.bias = false}) {
      out.weight = in.weight;
    }
    void visit(MemberVisitor& v) override {
      v.module("in", in);
      v.module("out", out);
    }
  };
  Tied net;
  CHECK(module_state(net).size() == 1);
  const Array value = Array::full({2, 2}, 5, DType::f32, cpu());
  CHECK(load_state(net, NamedArrays{{"out.weight", value}}).empty());
  CHECK(net.in.weight.to_vector<float>() == std::vector<float>{5, 5, 5, 5});
  CHECK(net.in.weight.is_same(net.out.weight));
  CHECK(load_state(net, NamedArrays{{"in.weight", value}, {"out.weight", value.copy()}}).empty());
  const auto other = [&] {
    load_state(net, NamedArrays{{"in.weight", value}, {"out.weight", Array::zeros({2, 2}, DType::f32, cpu())}});
  };
  CHECK_THROWS_WITH_AS(other(),
                       doctest::Contains("out.weight: another value than that of in.weight, which is the same tensor"),
                       DataError);
  CHECK_THROWS_WITH_AS(load_state(net, NamedArrays{}), doctest::Contains("missing in.weight"), DataError);
}

TEST_CASE("module state: through a file") {
  const TemporaryFolder folder;
  Net saved;
  load_state(saved, fitting());
  save_state(saved, folder.file("net.safetensors"));
  Net net;
  CHECK(load_state(net, folder.file("net.safetensors")).empty());
  CHECK(values(net) == values(saved));
  std::filesystem::remove(folder.file("net.safetensors"));
  net.fc1.weight.array().to_vector<float>();
  write_safetensors(folder.file("other"), {{{"fc1.weight", Array::zeros({1}, DType::f32, cpu())}}, {}});
  CHECK_THROWS_WITH_AS(load_state(net, folder.file("other")), doctest::Contains("missing fc2.weight"), DataError);
  CHECK_THROWS_WITH_AS(load_state(net, folder.file("other")), doctest::Contains(folder.file("other").c_str()),
                       DataError);
}

TEST_CASE("module state: PyTorch gives and takes it" *
          doctest::skip(!python_has("torch") || !python_has("safetensors"))) {
  const TemporaryFolder folder;
  const std::string script = R"(
import sys, torch
from safetensors.torch import load_file, save_file
net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Linear(2, 1, bias=False))
net.register_buffer('steps', torch.tensor(9))
if sys.argv[2] == 'save':
  save_file({'module.' + name: value for name, value in net.state_dict().items()}, sys.argv[1])
  print(*(v for p in (net[0].weight, net[0].bias, net[1].weight) for v in p.detach().double().flatten().tolist()), 9)
else:
  net.load_state_dict({name.replace('fc1', '0').replace('fc2', '1'): value for name, value in load_file(sys.argv[1]).items()})
)";
  const std::string printed = run_python(script, {folder.file("torch"), "save"});
  Net net;
  load_state(net, folder.file("torch"), {.rename = [](const std::string& name) {
               const std::string here = name.substr(std::string("module.").size());
               return here[0] == '0' ? "fc1" + here.substr(1) : here[0] == '1' ? "fc2" + here.substr(1) : here;
             }});
  std::istringstream words(printed);
  std::vector<double> expected;
  for (double value = 0; words >> value;) expected.push_back(value);
  CHECK(values(net) == expected);
  save_state(net, folder.file("ours"));
  run_python(script, {folder.file("ours"), "load"});
}

TEST_CASE("module state: a copy is what the module was") {
  Net net;
  const NamedArrays kept = copy_module_state(net);
  const std::vector<double> before = values(net);
  for (const Tensor& parameter : net.parameters()) {
    Array changed = parameter.array();
    changed.fill(7);
  }
  CHECK(values(net) != before);
  CHECK(load_state(net, kept).empty());
  CHECK(values(net) == before);
}
