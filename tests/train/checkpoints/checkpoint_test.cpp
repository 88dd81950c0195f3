// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <tutti/backend/error.h>
#include <tutti/nn/linear.h>
#include <tutti/optim/adamw.h>
#include <tutti/optim/lamb.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/exchange/temporary_folder.h>
#include <tutti/tests/test_devices.h>
#include <tutti/train/checkpoints/checkpoint.h>
#include <tutti/train/checkpoints/tensor_file.h>

#include <filesystem>

using namespace tutti;
using namespace tutti::testing;

namespace {

struct Model : Module {
  Linear layer;
  Tensor count{Array::full({}, 5, DType::i64, test_device())};

  explicit Model(std::uint64_t seed, Device device = test_device())
      : layer([&] {
          Generator random(seed);
          return Linear(2, 3, random, {.device = device});
        }()) {}
  void visit(MemberVisitor& visitor) override {
    visitor.module("layer", layer);
    visitor.buffer("count", count);
  }
};

/// Makes one update, so that there is state to save.
void step_once(Model& model, Optimizer& optimizer) {
  for (const Tensor& parameter : model.parameters()) {
    GradientSlot& slot = parameter.gradient_slot();
    slot.gradient = Array::full(parameter.shape(), 0.5, DType::f32, parameter.device());
    slot.state = GradientState::accumulated;
  }
  optimizer.step();
}

struct Values {
  std::vector<float> weight;
  std::vector<float> bias;
  std::int64_t count;
  std::int64_t steps;
  std::vector<float> mean;

  Values(Model& model, const Optimizer& optimizer)
      : weight(model.layer.weight.to_vector<float>()),
        bias(model.layer.bias.to_vector<float>()),
        count(model.count.item<std::int64_t>()),
        steps(optimizer.steps()) {
    const Optimizer::State state = optimizer.state();
    if (!state.parameters[0].arrays.empty()) mean = state.parameters[0].arrays[0].second.to_vector<float>();
  }
  bool operator==(const Values&) const = default;
};

/// A file that fits `Model` and AdamW.
std::string saved_checkpoint(const TemporaryFolder& folder) {
  Model model(1);
  AdamW optimizer(model.parameters(), 0.25);
  step_once(model, optimizer);
  const std::string path = folder.file("model.safetensors");
  save_checkpoint(path, model, &optimizer, {{"epoch", "3"}, {"\"tutti.crc32\":\"", "ä\n"}});
  return path;
}

/// Loads into a model of other values and checks that the failure changed nothing.
void check_refused(const std::string& path) {
  Model model(2);
  AdamW optimizer(model.parameters(), 0.5);
  const Values before(model, optimizer);
  CHECK_THROWS_AS(load_checkpoint(path, model, &optimizer), DataError);
  CHECK(Values(model, optimizer) == before);
}

}  // namespace

TEST_CASE("checkpoint: brings back module, optimizer and notes, onto any device") {
  const TemporaryFolder folder;
  Model model(1);
  AdamW optimizer(model.parameters(), 0.25);
  step_once(model, optimizer);
  model.count.set_array(Array::full({}, 42, DType::i64, test_device()));
  const std::string path = folder.file("model.safetensors");
  save_checkpoint(path, model, &optimizer, {{"epoch", "3"}});

  Model other(2, test_device(1));
  AdamW restarted(other.parameters(), 0.5);
  const void* identity = other.layer.weight.identity();
  CHECK(load_checkpoint(path, other, &restarted) == CheckpointNotes{{"epoch", "3"}});
  CHECK(other.layer.weight.identity() == identity);
  CHECK(other.layer.weight.requires_grad());
  CHECK(other.layer.weight.device() == test_device(1));
  CHECK(Values(other, restarted) == Values(model, optimizer));
  CHECK(restarted.learning_rate() == 0.25);
  step_once(model, optimizer);
  step_once(other, restarted);
  CHECK(Values(other, restarted) == Values(model, optimizer));
}

TEST_CASE("checkpoint: keeps an optimizer's groups, and refuses others") {
  const TemporaryFolder folder;
  Model model(1);
  AdamW optimizer({{{model.layer.weight}, 0.25}, {{model.layer.bias}, 0.5, {.weight_decay = 0}}});
  step_once(model, optimizer);
  const std::string path = folder.file("model.safetensors");
  save_checkpoint(path, model, &optimizer);

  Model other(2);
  AdamW restarted({{{other.layer.weight}, 1}, {{other.layer.bias}, 1, {.weight_decay = 0}}});
  load_checkpoint(path, other, &restarted);
  CHECK(restarted.learning_rate(0) == 0.25);
  CHECK(restarted.learning_rate(1) == 0.5);
  CHECK(Values(other, restarted) == Values(model, optimizer));
  AdamW undivided(other.parameters(), 1);
  CHECK_THROWS_WITH_AS(load_checkpoint(path, other, &undivided), doctest::Contains("2 groups"), DataError);
}

TEST_CASE("checkpoint: another kind of optimizer refuses it") {
  const TemporaryFolder folder;
  const std::string path = saved_checkpoint(folder);
  Model model(2);
  Lamb optimizer(model.parameters(), 0.5);
  const Values before(model, optimizer);
  CHECK_THROWS_WITH_AS(load_checkpoint(path, model, &optimizer),
                       doctest::Contains("the state is of the optimizer AdamW, this one is Lamb"), DataError);
  CHECK(Values(model, optimizer) == before);
}

TEST_CASE("checkpoint: one from before there were groups is of a single one") {
  const TemporaryFolder folder;
  const std::string path = saved_checkpoint(folder);
  TensorFile file = read_tensor_file(path);
  std::string& text = file.metadata.at("tutti.optimizer");
  for (const auto& [now, before] :
       {std::pair<std::string, std::string>{"\"learning_rates\":[0.25]", "\"learning_rate\":0.25"},
        {",\"group\":0", ""},
        {"\"kind\":\"AdamW\",", ""}})
    for (std::size_t at; (at = text.find(now)) != std::string::npos;) text.replace(at, now.size(), before);
  REQUIRE(text.find("group") == std::string::npos);
  REQUIRE(text.find("kind") == std::string::npos);
  write_tensor_file(path, file);
  Model model(2);
  AdamW optimizer(model.parameters(), 0.5);
  load_checkpoint(path, model, &optimizer);
  CHECK(optimizer.learning_rate() == 0.25);
}

TEST_CASE("checkpoint: keeps an average of weights") {
  const TemporaryFolder folder;
  Model model(1);
  AdamW optimizer(model.parameters(), 0.25);
  WeightAverage average(model.parameters(), {.decay = 0.5});
  step_once(model, optimizer);
  average.update();
  const std::string path = folder.file("model.safetensors");
  save_checkpoint(path, model, &optimizer, {}, &average);

  Model other(2, test_device(1));
  AdamW restarted(other.parameters(), 0.5);
  WeightAverage loaded(other.parameters(), {.decay = 0.5});
  load_checkpoint(path, other, &restarted, &loaded);
  CHECK(loaded.updates() == 1);
  for (std::size_t i = 0; i < 2; ++i)
    CHECK(loaded.averages()[i].to_vector<float>() == average.averages()[i].to_vector<float>());
  CHECK(loaded.averages()[0].to_vector<float>() != other.layer.weight.to_vector<float>());
  Model third(3);
  load_checkpoint(path, third);  // nobody wants it

  WeightAverage fewer({third.layer.bias});
  CHECK_THROWS_WITH_AS(load_checkpoint(path, third, nullptr, &fewer), doctest::Contains("does not fit"), DataError);
  Sgd other_kind(other.parameters(), 0.1, {.momentum = 0.9});
  WeightAverage kept(other.parameters());
  CHECK_THROWS_AS(load_checkpoint(path, other, &other_kind, &kept), DataError);
  CHECK(kept.updates() == 0);
  save_checkpoint(path, model);
  CHECK_THROWS_WITH_AS(load_checkpoint(path, model, nullptr, &average),
                       doctest::Contains("without an average of weights"), DataError);
}

TEST_CASE("checkpoint: an optimizer's state may be left out or left alone") {
  const TemporaryFolder folder;
  const std::string with = saved_checkpoint(folder);
  Model model(2);
  load_checkpoint(with, model);
  CHECK(model.layer.weight.to_vector<float>() != Model(2).layer.weight.to_vector<float>());

  const std::string without = folder.file("without");
  save_checkpoint(without, model);
  Sgd optimizer(model.parameters(), 0.1);
  CHECK_THROWS_WITH_AS(load_checkpoint(without, model, &optimizer), doctest::Contains("without an optimizer"),
                       DataError);
}

TEST_CASE("checkpoint: cut off at any length, it is refused and nothing is loaded") {
  const TemporaryFolder folder;
  const std::string bytes = read_file(saved_checkpoint(folder));
  const std::string path = folder.file("cut");
  write_file(path, bytes + "x");
  check_refused(path);
  for (std::size_t length = bytes.size(); length-- > 0;) {
    CAPTURE(length);
    std::filesystem::resize_file(path, length);
    check_refused(path);
  }
}

TEST_CASE("checkpoint: with any byte changed, it is refused and nothing is loaded") {
  const TemporaryFolder folder;
  const std::string bytes = read_file(saved_checkpoint(folder));
  const std::string path = folder.file("damaged");
  write_file(path, bytes);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (const int flip : {0x01, 0x20, 0x80}) {
      CAPTURE(i);
      CAPTURE(flip);
      put_byte(path, i, static_cast<char>(bytes[i] ^ flip));
      check_refused(path);
    }
    put_byte(path, i, bytes[i]);
  }
}

TEST_CASE("checkpoint: misfits name the tensor and change nothing") {
  const TemporaryFolder folder;
  const std::string path = saved_checkpoint(folder);
  struct Wider : Model {
    Tensor extra{Array::zeros({1}, DType::f32, test_device()), true};
    using Model::Model;
    void visit(MemberVisitor& visitor) override {
      Model::visit(visitor);
      visitor.parameter("extra", extra);
    }
  } wider(2);
  CHECK_THROWS_WITH_AS(load_checkpoint(path, wider), doctest::Contains("has no \"extra\""), DataError);
  CHECK(wider.layer.weight.to_vector<float>() == Model(2).layer.weight.to_vector<float>());

  Generator random(1);
  Model taller(2);
  taller.layer = Linear(2, 4, random, {.device = test_device()});
  CHECK_THROWS_WITH_AS(load_checkpoint(path, taller), doctest::Contains("\"layer.weight\" is [3, 2] f32"), DataError);
  Model finer(2);
  finer.layer = Linear(2, 3, random, {.dtype = DType::f64, .device = test_device()});
  CHECK_THROWS_WITH_AS(load_checkpoint(path, finer), doctest::Contains("f64 in the module"), DataError);

  Model smaller(2);
  smaller.layer = Linear(2, 3, random, {.bias = false, .device = test_device()});
  CHECK_THROWS_WITH_AS(load_checkpoint(path, smaller), doctest::Contains("holds \"layer.bias\""), DataError);

  Model model(2);
  Sgd other_kind(model.parameters(), 0.1, {.momentum = 0.9});
  CHECK_THROWS_WITH_AS(load_checkpoint(path, model, &other_kind), doctest::Contains("does not fit the optimizer"),
                       DataError);
  CHECK(model.layer.weight.to_vector<float>() == Model(2).layer.weight.to_vector<float>());
}

TEST_CASE("checkpoint: another version is refused by name") {
  const TemporaryFolder folder;
  const std::string path = folder.file("future");
  write_tensor_file(path, {{}, {{"tutti.checkpoint", "2"}}});
  Model model(2);
  CHECK_THROWS_WITH_AS(load_checkpoint(path, model), doctest::Contains("version 2"), DataError);
}

TEST_CASE("checkpoint: saving replaces in one step and leaves nothing behind") {
  const TemporaryFolder folder;
  const std::string path = saved_checkpoint(folder);
  saved_checkpoint(folder);
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) files += entry.is_regular_file();
  CHECK(files == 1);

  Model model(1);
  CHECK_THROWS_AS(save_checkpoint(folder.file("missing/model"), model), DataError);
  const std::string directory = folder.file("directory");
  std::filesystem::create_directory(directory);
  CHECK_THROWS_WITH_AS(save_checkpoint(directory, model), doctest::Contains(directory.c_str()), DataError);
  files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) files += entry.is_regular_file();
  CHECK(files == 1);
}
