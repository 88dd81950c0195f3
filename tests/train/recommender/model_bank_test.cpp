// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/recommender/model_bank.h>

#include <tutti/backend/error.h>
#include <tutti/nn/hash_embedding.h>
#include <tutti/nn/linear.h>
#include <tutti/tests/exchange/temporary_folder.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>

#include <algorithm>

using namespace tutti;
using namespace tutti::testing;

namespace {

using Ids = std::vector<std::int64_t>;
using Names = std::vector<std::string>;
using Floats = std::vector<float>;

struct Ranker : Module {
  HashEmbedding users{2, {{.seed = 3, .device = test_device()}}};
  Linear deep;
  Linear output;

  explicit Ranker(float value = 0.0F) : deep(make(2)), output(make(1)) {
    for (Tensor& parameter : parameters())
      parameter.set_array(Array::full(parameter.shape(), value, DType::f32, test_device()));
  }
  void visit(MemberVisitor& v) override {
    v.module("users", users);
    v.module("deep", deep);
    v.module("output", output);
  }
  float value_of(const char* name) {
    for (const auto& [own, tensor] : named_parameters())
      if (own == name) return tensor.to_vector<float>().front();
    return -1;
  }

 private:
  static Linear make(std::int64_t out) {
    Generator random(1);
    return Linear(2, out, random, {.device = test_device()});
  }
};

/// A file with everything of a model, tables too, each name after `prefix`.
void save_all(const std::string& path, Ranker& model, const std::string& prefix = "") {
  NamedArrays arrays;
  for (auto& [name, array] : module_state(model)) arrays.emplace_back(prefix + name, array);
  for (auto& [name, array] : save_tables(model)) arrays.emplace_back(prefix + name, array);
  write_safetensors(path, {arrays, {}});
}

void reach(Ranker& model, const Ids& ids) {
  const auto count = static_cast<std::int64_t>(ids.size());
  model.users.table()->admit(
      {Array::from(ids, {count}, test_device()), Array::zeros({count, 2}, DType::f32, test_device()), {0, 2}, true},
      {{"sum"}});
}

std::vector<ModelBankReport> load(Ranker& model, std::vector<ModelBankSource> sources,
                                  const std::vector<LoadHook>& hooks = {}) {
  return load_model_bank(model, sources, hooks);
}

}  // namespace

TEST_CASE("model bank: sources in their order, by patterns and other names") {
  const TemporaryFolder folder;
  Ranker first(1);
  Ranker second(2);
  reach(second, {5, -6});
  save_all(folder.file("first"), first);
  save_all(folder.file("second"), second, "model/");
  Ranker model(0);
  const Tensor identity = model.deep.weight;
  const auto reports = load(model, {{.path = folder.file("first"), .load = {"deep.*", "output.weight"}},
                                    {.path = folder.file("second"),
                                     .load = {"users*", "deep.weight", "output*"},
                                     .exclude = {"output.*"},
                                     .rename = {{"model/", ""}}}});
  CHECK(model.value_of("deep.weight") == 2);
  CHECK(model.value_of("deep.bias") == 1);
  CHECK(model.value_of("output.weight") == 1);
  CHECK(model.value_of("output.bias") == 0);
  CHECK(model.deep.weight.is_same(identity));
  CHECK(model.users.table()->index().ids() == Ids{-6, 5});
  CHECK(model.users.table()->state().size() == 1);
  REQUIRE(reports.size() == 2);
  CHECK(reports[0].loaded == Names{"deep.weight", "deep.bias", "output.weight"});
  CHECK(reports[1].loaded == Names{"users.weight", "deep.weight"});
}

TEST_CASE("model bank: a folder stands for all its files") {
  const TemporaryFolder folder;
  Ranker saved(3);
  const NamedArrays state = module_state(saved);
  for (std::size_t i = 1; i < state.size(); ++i)
    write_safetensors(folder.file("part" + std::to_string(i) + ".safetensors"), {{state[i]}, {}});
  write_file(folder.file("manifest.json"), "{}");
  Ranker model(0);
  load(model, {{.path = folder.path(), .load = {"deep*", "output*"}}});
  CHECK(model.value_of("output.bias") == 3);
  write_safetensors(folder.file("again.safetensors"), {{state[1]}, {}});
  CHECK_THROWS_WITH_AS(load(model, {{.path = folder.path()}}), doctest::Contains("a second \"deep.weight\""),
                       DataError);
  const TemporaryFolder empty;
  CHECK_THROWS_WITH_AS(load(model, {{.path = empty.path()}}), doctest::Contains("no .safetensors"), DataError);
}

TEST_CASE("model bank: strict names file and tensors, and changes nothing; lenient loads what fits") {
  const TemporaryFolder folder;
  Ranker saved(4);
  save_all(folder.file("good"), saved);
  NamedArrays arrays{{"deep.weight", saved.deep.weight.array()},
                     {"deep.bias", Array::zeros({3}, DType::f32, cpu())},
                     {"output.bias", Array::zeros({1}, DType::i64, cpu())},
                     {"users.ids", Array::zeros({1}, DType::i64, cpu())},
                     {"beyond", Array::zeros({1}, DType::i64, cpu())}};
  write_safetensors(folder.file("bad"), {arrays, {}});
  Ranker model(0);
  const std::vector<ModelBankSource> strict{{.path = folder.file("good")}, {.path = folder.file("bad")}};
  for (const char* part : {"/bad", "deep.bias: f32 [3] given, f32 [2] in the module", "output.bias: i64",
                           "missing output.weight", "users.weight: [hash_table] \"updates\" is missing"})
    CHECK_THROWS_WITH_AS(load(model, strict), doctest::Contains(part), DataError);
  CHECK(model.value_of("deep.weight") == 0);
  const auto reports = load(model, {{.path = folder.file("bad"), .strict = false}});
  CHECK(model.value_of("deep.weight") == 4);
  CHECK(model.value_of("output.bias") == 0);
  CHECK(reports[0].loaded == Names{"deep.weight"});
  CHECK(reports[0].missing == Names{"output.weight"});
  CHECK(reports[0].mismatched.size() == 3);
  CHECK_THROWS_WITH_AS(load(model, {{.path = folder.file("good"), .load = {"depe.*"}}}),
                       doctest::Contains("\"depe.*\""), DataError);
  CHECK_THROWS_WITH_AS(load(model, {{.path = folder.file("absent")}}), doctest::Contains("/absent"), DataError);
}

TEST_CASE("model bank: hooks around each source; one that throws before ends it unchanged") {
  const TemporaryFolder folder;
  Ranker model(0);
  Names events;
  const auto last = [](const std::string& path) { return path.substr(path.rfind('/') + 1); };
  const LoadHook hook{[&](const ModelBankSource& source) {
                        events.push_back("before " + last(source.path));
                        Ranker made(5);
                        save_all(source.path, made);  // a hook may get the file
                      },
                      [&](const ModelBankSource& source, const ModelBankReport& report) {
                        events.push_back("after " + last(source.path) + " " + std::to_string(report.loaded.size()));
                      }};
  load(model, {{.path = folder.file("a")}, {.path = folder.file("b"), .load = {"deep.bias"}}}, {hook, {}});
  CHECK(events == Names{"before a", "before b", "after a 5", "after b 1"});
  CHECK(model.value_of("output.bias") == 5);
  Ranker other(0);
  const LoadHook refuses{[](const ModelBankSource&) { throw std::runtime_error("no"); }};
  CHECK_THROWS_AS(load(other, {{.path = folder.file("a")}}, {refuses}), std::runtime_error);
  CHECK(other.value_of("output.bias") == 0);
}
