// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/checkpoints/checkpoint_parts.h>

#include <tutti/optim/scheduler.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/exchange/temporary_folder.h>
#include <tutti/tests/train/checkpoints/checkpointed_run.h>
#include <tutti/train/reporting/json_lines_writer.h>
#include <tutti/train/reporting/writers/event_storage.h>

#include <doctest/doctest.h>

#include <fstream>

using namespace tutti;
using namespace tutti::testing;

namespace {

const PartState* find(const PartStates& states, const std::string& name) {
  for (const auto& [part, state] : states)
    if (part == name) return &state;
  return nullptr;
}

std::vector<std::string> array_names(const PartState& state) {
  std::vector<std::string> names;
  for (const auto& [name, array] : state.arrays) names.push_back(name);
  return names;
}

}  // namespace

TEST_CASE("checkpoint parts: a run that has been given another's state goes on bitwise as that one") {
  CheckpointedRun whole;
  whole.run(17);
  CheckpointedRun other(2);
  other.run(5);
  CHECK(other.parts.load(whole.parts.save()).empty());
  other.progress = whole.progress;
  CHECK((other.result() == whole.result()));
  whole.run(40);
  other.run(40);
  CHECK((other.result() == whole.result()));
}

TEST_CASE("checkpoint parts: what was saved does not change while training goes on") {
  CheckpointedRun run;
  run.run(3);
  const std::string then = run.result();
  const PartStates saved = run.parts.save();
  run.run(9);
  CHECK((run.result() != then));
  run.parts.load(saved);
  CHECK((run.result() == then));
}

TEST_CASE("checkpoint parts: each part is needed for the same end") {
  CheckpointedRun whole;
  whole.run(16);
  const PartStates saved = whole.parts.save();
  whole.run(20);
  for (const auto& [name, state] : saved) {
    CAPTURE(name);
    CheckpointedRun other(2);
    other.parts.load(saved, {.exclude = {name}});
    other.progress = {16, 2, 0};
    other.run(20);
    CHECK((other.result() != whole.result()));
  }
}

TEST_CASE("checkpoint parts: all are loaded or none, whichever does not fit") {
  CheckpointedRun whole;
  whole.run(10);
  const PartStates saved = whole.parts.save();
  CheckpointedRun other(2);
  other.run(4);
  const std::string before = other.result();
  for (std::size_t i = 0; i < saved.size(); ++i) {
    CAPTURE(saved[i].first);
    PartStates wrong = saved;
    PartState& state = wrong[i].second;
    if (state.arrays.empty())
      state.text = "x";
    else
      state.arrays.front().second = Array::zeros({3}, DType::f32, cpu());
    const std::string names_it = "does not fit part \"" + saved[i].first + "\"";
    CHECK_THROWS_WITH_AS(other.parts.load(wrong), doctest::Contains(names_it.c_str()), DataError);
    CHECK((other.result() == before));
    wrong.erase(wrong.begin() + static_cast<std::ptrdiff_t>(i));
    const std::string lacks_it = "has no part \"" + saved[i].first + "\"";
    CHECK_THROWS_WITH_AS(other.parts.load(wrong), doctest::Contains(lacks_it.c_str()), DataError);
    CHECK((other.result() == before));
  }
  CheckpointedRun wider(1, 13);
  CHECK_THROWS_WITH_AS(wider.parts.load(saved, {}, "checkpoint-1"),
                       doctest::Contains("checkpoint-1 does not fit part \"model\": \"hidden.weight\" is [12, 6] f32"),
                       DataError);
}

TEST_CASE("checkpoint parts: a scheduler goes on with its optimizer's groups, whichever is named first") {
  struct Run {
    Tensor slow{Array::zeros({1}, DType::f32, test_device()), true};
    Tensor fast{Array::zeros({1}, DType::f32, test_device()), true};
    Sgd optimizer;
    Scheduler scheduler;
    CheckpointParts parts;
    explicit Run(double rate, bool scheduler_first)
        : optimizer({{{slow}, rate, {}}, {{fast}, 10 * rate, {}}}),
          scheduler(optimizer, Schedule::exponential(1, 0.7)) {
      if (scheduler_first) parts.add("scheduler", scheduler);
      parts.add("optimizer", optimizer);
      if (!scheduler_first) parts.add("scheduler", scheduler);
    }
    std::vector<double> rates() const { return {optimizer.learning_rate(0), optimizer.learning_rate(1)}; }
  };
  for (const bool scheduler_first : {true, false}) {
    Run whole(0.1, scheduler_first);
    for (int i = 0; i < 5; ++i) whole.scheduler.step();
    Run other(0.5, scheduler_first);
    other.scheduler.step();
    other.parts.load(whole.parts.save());
    CHECK(other.rates() == whole.rates());
    whole.scheduler.step();
    other.scheduler.step();
    CHECK(other.rates() == whole.rates());
    PartStates wrong = whole.parts.save();
    for (auto& [name, state] : wrong)
      if (name == "scheduler") state.text = "0.1 1";
    CHECK_THROWS_AS(other.parts.load(wrong), DataError);
    CHECK(other.rates() == whole.rates());
  }
}

TEST_CASE("checkpoint parts: malformed texts are refused") {
  CheckpointedRun run;
  run.run(2);
  const PartStates saved = run.parts.save();
  for (const char* text : {"", "{", "[]", "{}", "7", "null", R"({"steps":1.5,"learning_rates":[],"parameters":[]})",
                           R"({"steps":1,"learning_rates":["x"],"parameters":[]})",
                           R"({"steps":1,"learning_rates":[0.1],"parameters":[{"steps":-1,"arrays":[]}]})",
                           R"({"steps":1,"learning_rates":[0.1],"parameters":[{"steps":1,"arrays":["none"]}]})",
                           R"({"updates":-1,"parameters":4})", R"({"updates":1,"parameters":99999999999})"})
    for (const char* part : {"optimizer", "average", "random", "scaler", "stream"}) {
      CAPTURE(text);
      CAPTURE(part);
      PartStates wrong = saved;
      for (auto& [name, state] : wrong)
        if (name == part) state.text = text;
      CHECK_THROWS_AS(run.parts.load(wrong), DataError);
    }
  for (const char* text : {"{", "[7]", "{\"dropout\":7}", "{\"dropout\":{\"0\":7}}", "{\"dropout\":{\"0\":\"x\"}}",
                           "{}", "{\"dropout\":{},\"other\":{}}"}) {
    CAPTURE(text);
    PartStates wrong = saved;
    wrong.front().second.text = text;
    CHECK_THROWS_AS(run.parts.load(wrong), DataError);
  }
}

TEST_CASE("checkpoint parts: filters take parts and arrays out, in saving and in loading") {
  CheckpointedRun run;
  run.run(3);
  const PartStates some = run.parts.save({.exclude = {"optimizer", "model/output.*"}});
  CHECK(find(some, "optimizer") == nullptr);
  REQUIRE(find(some, "model") != nullptr);
  CHECK(array_names(*find(some, "model")) == std::vector<std::string>{"hidden.weight", "hidden.bias", "batches"});
  CHECK(find(some, "model")->left_out == std::set<std::string>{"output.weight", "output.bias"});
  CHECK(find(some, "scaler") != nullptr);

  const PartStates biases = run.parts.save({.include = {"model/*.bias"}});
  REQUIRE(biases.size() == 1);
  CHECK(array_names(biases[0].second) == std::vector<std::string>{"hidden.bias", "output.bias"});

  const PartStates whole = run.parts.save({.include = {"model"}});
  REQUIRE(whole.size() == 1);
  CHECK(array_names(whole[0].second) == array_names(*find(run.parts.save(), "model")));
  for (const std::string nothing : {"modle", "model/*.bais"}) {
    const std::string text = "[checkpoint] the filter includes \"" + nothing + "\", which is no part and no array";
    CHECK_THROWS_WITH_AS(run.parts.save({.include = {"optimizer", nothing}}), doctest::Contains(text.c_str()), Error);
    CHECK_THROWS_WITH_AS(run.parts.load(whole, {.include = {"model", nothing}}), doctest::Contains(text.c_str()),
                         Error);
  }

  // A part without arrays, and one that is excluded, have none to be told from mistakes.
  Sgd plain(run.model.parameters(), 0.1);
  CheckpointParts parts;
  parts.add("model", run.model);
  parts.add("optimizer", plain);
  const CheckpointFilter both{.include = {"model/*", "optimizer/*"}};
  const PartStates two = parts.save(both);
  CHECK(two.size() == 2);
  parts.load(two, both);
  const CheckpointFilter without{.include = {"model/hidden.weight", "*"}, .exclude = {"model"}};
  CHECK(parts.save(without).size() == 1);
  parts.load(two, without);
  parts.load(run.parts.save({.include = {"*"}, .exclude = {"model/output.*"}}),
             {.include = {"model/output.*", "model/*.weight"}});
  CHECK_THROWS_AS(parts.save({.include = {"model/*", "optimiser/*"}}), Error);

  CheckpointedRun another(2);
  another.parts.load(whole, {.include = {"model"}});
  CHECK(another.model.output.weight.to_vector<float>() == run.model.output.weight.to_vector<float>());

  CheckpointedRun other(2);
  const auto kept = other.model.output.weight.to_vector<float>();
  CHECK_THROWS_WITH_AS(other.parts.load(some), doctest::Contains("has no part \"optimizer\""), DataError);
  other.parts.load(some, {.exclude = {"optimizer"}});  // what was left out on purpose keeps its value
  CHECK(other.model.output.weight.to_vector<float>() == kept);
  CHECK(other.model.hidden.weight.to_vector<float>() == run.model.hidden.weight.to_vector<float>());

  CheckpointedRun third(3);
  const auto hidden = third.model.hidden.weight.to_vector<float>();
  CHECK(third.parts.load(run.parts.save(), {.include = {"model/output.*"}}).empty());
  CHECK(third.model.hidden.weight.to_vector<float>() == hidden);
  CHECK(third.model.output.weight.to_vector<float>() == run.model.output.weight.to_vector<float>());

  CheckpointParts model_alone;
  model_alone.add("model", third.model);
  CHECK(model_alone.load(run.parts.save()).size() == 7);
}

TEST_CASE("checkpoint parts: from one device onto several, each on its own") {
  CheckpointedRun run;
  run.run(4);
  std::vector<DroppingNetwork> replicas;
  for (const Device device : test_devices(3)) replicas.push_back(clone(DroppingNetwork(Generator(9)), device));
  std::vector<std::unique_ptr<AdamW>> optimizers;
  CheckpointParts parts;
  std::vector<DroppingNetwork*> models;
  std::vector<AdamW*> plain;
  for (DroppingNetwork& replica : replicas) {
    models.push_back(&replica);
    optimizers.push_back(std::make_unique<AdamW>(replica.parameters(), 0.5));
    plain.push_back(optimizers.back().get());
  }
  parts.add("model", models);
  parts.add("optimizer", plain);
  CHECK(parts.load(run.parts.save()).size() == 6);
  for (std::size_t d = 0; d < replicas.size(); ++d) {
    CHECK(replicas[d].hidden.weight.device() == test_device(d));
    CHECK(replicas[d].hidden.weight.to_vector<float>() == run.model.hidden.weight.to_vector<float>());
    CHECK(optimizers[d]->steps() == 4);
    CHECK(optimizers[d]->learning_rate() == 0.01);
  }
  CheckpointedRun back(3);
  CHECK_NOTHROW(back.parts.load(parts.save(), {.include = {"model", "model/*", "optimizer", "optimizer/*"}}));
  CHECK(back.model.output.bias.to_vector<float>() == run.model.output.bias.to_vector<float>());
}

TEST_CASE("checkpoint parts: what is between two states is not saved") {
  CheckpointedRun run;
  run.run(2);
  {
    const auto applied = run.average.apply();
    CHECK_THROWS_WITH_AS(run.parts.save(), doctest::Contains("end it first"), Error);
  }
  CHECK_NOTHROW(run.parts.save());
}

TEST_CASE("checkpoint parts: names are checked") {
  Generator random(1);
  CheckpointParts parts;
  parts.add("random", random);
  CHECK_THROWS_WITH_AS(parts.add("random", random), doctest::Contains("two parts \"random\""), Error);
  CHECK_THROWS_AS(parts.add("a/b", random), Error);
  CHECK_THROWS_AS(parts.add("", random), Error);
  CHECK_THROWS_WITH_AS(parts.add("none", std::vector<Generator*>{}), doctest::Contains("on no device"), Error);
}

TEST_CASE("checkpoint parts: functions that are not set are refused") {
  CheckpointParts parts;
  CHECK_THROWS_WITH_AS(parts.add("x", CheckpointParts::Part{}), "[checkpoint] part \"x\" has no function that saves it",
                       Error);
  const auto save = [] { return PartState{}; };
  CHECK_THROWS_WITH_AS(parts.add("x", CheckpointParts::Part{.save = save, .prepare = nullptr}),
                       "[checkpoint] part \"x\" has no function that loads it", Error);
  CHECK_THROWS_WITH_AS(parts.add(
                           "x", [] { return std::string(); }, nullptr),
                       "[checkpoint] part \"x\" has no function that loads it", Error);
  CHECK_THROWS_WITH_AS(parts.add("x", nullptr, [](const std::string&) {}),
                       "[checkpoint] part \"x\" has no function that saves it", Error);
}

TEST_CASE("checkpoint parts: an EventStorage, with every figure") {
  EventStorage storage(3);
  storage.put_scalars({{"loss", 0.1}, {"lr", 0.25}});
  CheckpointParts parts;
  parts.add("events", storage);
  const PartStates states = parts.save();
  const std::string before = storage.to_text();
  storage.set_iteration(4);
  storage.put_scalar("loss", 0.2);
  parts.load(states);
  CHECK(storage.to_text() == before);
  CHECK_THROWS_WITH_AS(parts.load({{"events", {{}, "no events"}}}), doctest::Contains("part \"events\""), DataError);
  CHECK(storage.to_text() == before);
}

TEST_CASE("checkpoint parts: a refused checkpoint drops no rows of a log, a loaded one those that are void") {
  const auto count_lines = [](const std::string& path) {
    std::ifstream file(path);
    std::int64_t lines = 0;
    for (std::string line; std::getline(file, line);) ++lines;
    return lines;
  };
  EventStorage early;
  early.begin_marking();
  early.put_scalar("loss", 1.0);
  const TemporaryFolder folder;
  EventStorage storage(0, {.history = 2});
  JsonLinesWriter writer(folder.file("log.jsonl"));
  const auto put = [&](std::int64_t iteration) {
    storage.set_iteration(iteration);
    storage.put_scalar("loss", 0.5);
    writer.write(storage);
    storage.mark_written();
  };
  for (std::int64_t i = 0; i < 6; ++i) put(i);
  Generator random(1);
  CheckpointParts parts;
  parts.add("events", storage);
  parts.add("random", random);
  PartStates states{{"events", part_state(early)}, {"random", {{}, "no random state"}}};
  const auto starts = storage.starts();
  CHECK_THROWS_WITH_AS(parts.load(states), doctest::Contains("part \"random\""), DataError);
  CHECK(storage.starts() == starts);
  put(6);
  CHECK(count_lines(folder.file("log.jsonl")) == 7);
  states[1].second = part_state(random);
  parts.load(states);
  CHECK(storage.starts().size() == starts.size() + 1);
  put(1);
  CHECK(count_lines(folder.file("log.jsonl")) == 2);
}
