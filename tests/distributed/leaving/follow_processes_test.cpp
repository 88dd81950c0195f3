// SPDX-License-Identifier: Apache-2.0
// Devices that have left and follow, in groups of several processes, which here are threads of one: each takes from the
// others' steps what it would take in one process.
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/distributed/power_sgd.h>
#include <tutti/distributed/sharded/sharded_optimizer.h>
#include <tutti/nn/embedding.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/normalization.h>
#include <tutti/optim/adamw.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/distributed/processes/process_threads.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

constexpr std::size_t kDevices = 4;
const std::vector<std::vector<std::uint32_t>> kSplits{{2, 2}, {1, 1, 1, 1}, {1, 3}, {3, 1}};

Device device(std::size_t number) { return cpu(static_cast<std::uint16_t>(number)); }

/// A table, whose gradients may be sparse, dense parameters, and floating buffers.
struct Model : Module {
  explicit Model(bool sparse = false)
      : words(40, 6, random, {.sparse = sparse}), hidden(6, 8, random), norm(8), output(8, 3, random) {}
  Tensor loss(const Tensor& tokens) const {
    return mean(square(output.forward(tanh(norm.forward(hidden.forward(words.forward(tokens)))))));
  }
  void visit(MemberVisitor& v) override {
    v.module("words", words);
    v.module("hidden", hidden);
    v.module("norm", norm);
    v.module("output", output);
  }
  Generator random{5};
  Embedding words;
  Linear hidden;
  BatchNorm norm;
  Linear output;
};

/// What a training needs of its optimizer, sharded or not.
struct Updates {
  std::function<void()> zero_grad;
  std::function<void()> step;
};
template <class AnyOptimizer> Updates updates_of(std::shared_ptr<AnyOptimizer> optimizer) {
  return {[optimizer] { optimizer->zero_grad(); }, [optimizer] { optimizer->step(); }};
}
using Steps = std::function<int(std::size_t number)>;
using Make = std::function<Updates(GradientSync&, Device, Model&)>;

/// A training in which each device takes some steps with data, then follows the others to the end.
struct Training {
  SyncOptions options = {};
  Steps steps = [](std::size_t number) { return static_cast<int>(2 + number); };
  bool sparse = false;
  Make optimizer = [](GradientSync&, Device, Model& model) {
    return updates_of(std::make_shared<Sgd>(model.parameters(), 0.1));
  };
  std::function<std::shared_ptr<GradientCompression>()> compression = [] { return nullptr; };

  SyncOptions made_options() const {
    SyncOptions made = options;
    made.compression = compression();
    return made;
  }
};

using ByDevice = std::vector<std::vector<float>>;

void append(std::vector<float>& history, Model& model) {
  for (const Tensor& tensor : model.parameters())
    for (const float value : tensor.array().to_vector<float>()) history.push_back(value);
  for (const Tensor& tensor : {model.norm.running_mean, model.norm.running_var})
    for (const float value : tensor.to_vector<float>()) history.push_back(value);
}

// Parameters and buffers of the device after each step of the group.
std::vector<float> train(GradientSync& sync, Model& model, std::size_t number, const Training& training) {
  std::vector<float> history;
  const Updates optimizer = training.optimizer(sync, device(number), model);
  for (int i = 0; i < training.steps(number); ++i) {
    Generator random(13, static_cast<std::uint64_t>(i) * kDevices + number);
    std::vector<std::int64_t> tokens;
    for (std::size_t t = 0; t < 3 + number; ++t) tokens.push_back(static_cast<std::int64_t>(random.below(40)));
    optimizer.zero_grad();
    auto step = sync.step(device(number), static_cast<double>(tokens.size()));
    step.backward(model.loss(Tensor(Array::from(tokens, {std::ssize(tokens)}, device(number)))));
    optimizer.step();
    append(history, model);
  }
  if (sync.flush(device(number))) {
    optimizer.step();
    append(history, model);
  }
  sync.leave(device(number), Follow::yes);
  while (sync.follow(device(number))) {
    optimizer.step();
    append(history, model);
  }
  CHECK(!sync.follow(device(number)));
  append(history, model);
  return history;
}

ByDevice alone(const Training& training) {
  GradientSync sync({cpu(0), cpu(1), cpu(2), cpu(3)}, training.made_options());
  auto replicas = sync.replicate(Model(training.sparse));
  ByDevice histories(kDevices);
  run_devices(kDevices,
              [&](std::size_t number) { histories[number] = train(sync, replicas[number], number, training); });
  return histories;
}

ByDevice split_up(const std::vector<std::uint32_t>& split, const Training& training, bool connects) {
  ProcessThreads group(split, connects);
  ByDevice histories(kDevices);
  const auto errors = group.run_each([&](std::size_t) { return training.made_options(); },
                                     [&](std::size_t rank, GradientSync& sync) {
                                       auto replicas = sync.replicate(Model(training.sparse));
                                       run_devices(split[rank], [&](std::size_t place) {
                                         const std::size_t number = group.first_of(rank) + place;
                                         histories[number] = train(sync, replicas[place], number, training);
                                       });
                                     });
  for (const std::string& error : errors) CHECK(error == "");
  return histories;
}

// Between processes that share memory, and that are connected.
void check_all_splits(const Training& training, const Training& in_one_process) {
  const ByDevice expected = alone(in_one_process);
  for (const bool connects : {false, true})
    for (const auto& split : kSplits) {
      CAPTURE(connects);
      CAPTURE(split);
      CHECK(split_up(split, training, connects) == expected);
    }
}
void check_all_splits(const Training& training) { check_all_splits(training, training); }

}  // namespace

TEST_CASE("follow, several processes: the replicas of devices without data go with the others', in any split") {
  for (const BufferPolicy policy : {BufferPolicy::main, BufferPolicy::mean}) {
    Training training{.options = {.buffers = policy}};
    const ByDevice all = alone(training);
    REQUIRE(all[0].size() == all[3].size());
    check_all_splits(training);
    training.steps = [](std::size_t number) { return number == 2 ? 5 : 0; };  // three have no data at all
    check_all_splits(training);
    training.steps = [](std::size_t) { return 3; };
    check_all_splits(training);
  }
}

TEST_CASE("follow, several processes: sparse gradients, 16-bit wire, compression and double buffering") {
  check_all_splits({.sparse = true});
  check_all_splits({.options = {.wire = GradientWire::bf16}});
  check_all_splits({.compression = [] { return std::make_shared<PowerSgd>(PowerSgdOptions{.rank = 2}); }});
  check_all_splits({.options = {.overlap = Overlap::double_buffered, .buffers = BufferPolicy::synchronised}});
}

TEST_CASE("follow, several processes: shares of an optimizer whose devices have no data are stepped on") {
  for (const Sharding sharding : {Sharding::optimizer_state, Sharding::gradients}) {
    const Make adamw = [](GradientSync&, Device, Model& model) {
      return updates_of(std::make_shared<AdamW>(model.parameters(), 0.01));
    };
    const Make sharded = [](GradientSync& sync, Device owner, Model&) {
      return updates_of(std::make_shared<ShardedOptimizer>(
          sync, owner, [](std::vector<Tensor> pieces) { return std::make_unique<AdamW>(std::move(pieces), 0.01); }));
    };
    check_all_splits({.options = {.sharding = sharding, .bucket_bytes = 256}, .optimizer = sharded},
                     {.optimizer = adamw});
  }
}

namespace {

Tensor two_words(Model& model, Device device) {
  return model.loss(Tensor(Array::from(std::vector<std::int64_t>{1, 2}, {2}, device)));
}

enum class Stop : std::uint8_t { by_leaving, by_an_exception, before_an_update, by_destruction };

}  // namespace

TEST_CASE("follow, several processes: who follows no more goes on reducing") {
  ProcessThreads group({1, 1});
  std::atomic<bool> stopped = false;
  const auto errors = group.run({}, [&](std::size_t rank, GradientSync& sync) {
    auto replicas = sync.replicate(Model());
    const Device own = device(rank);
    const auto step = [&] {
      replicas[0].zero_grad();
      sync.step(own, 1, [&](Step& opened) { opened.backward(two_words(replicas[0], own)); });
    };
    step();
    if (rank == 1) {
      sync.leave(own, Follow::yes);
      CHECK(sync.follow(own));
      CHECK(sync.follow(own));
      sync.leave(own);
      stopped = true;
      CHECK_THROWS_WITH_AS((void)sync.follow(own), doctest::Contains("does not follow"), SyncError);
      return;
    }
    step();
    step();
    while (!stopped) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    for (int i = 0; i < 3; ++i) step();
    sync.leave(own);
  });
  for (const std::string& error : errors) CHECK(error == "");
}

TEST_CASE("follow, several processes: who follows no more and owns a share ends the group at once, by name") {
  for (const Stop stop : {Stop::by_leaving, Stop::by_an_exception, Stop::before_an_update, Stop::by_destruction}) {
    CAPTURE(static_cast<int>(stop));
    const auto begun = std::chrono::steady_clock::now();
    ProcessThreads group({1, 1});
    const auto errors = group.run({.sharding = Sharding::optimizer_state}, [&](std::size_t rank, GradientSync& sync) {
      auto replicas = sync.replicate(Model());
      const Device own = device(rank);
      ShardedOptimizer optimizer(
          sync, own, [](std::vector<Tensor> pieces) { return std::make_unique<AdamW>(std::move(pieces), 0.01); });
      for (int i = 0; i < (rank == 1 ? 1 : 100); ++i) {
        optimizer.zero_grad();
        sync.step(own, 1, [&](Step& step) { step.backward(two_words(replicas[0], own)); });
        optimizer.step();
      }
      sync.leave(own, Follow::yes);
      for (int i = 0; i < 2 && sync.follow(own); ++i) {
        if (i == 1 && stop == Stop::before_an_update) throw std::runtime_error("no more memory");
        optimizer.step();
      }
      if (stop == Stop::by_leaving) sync.leave(own);
      if (stop == Stop::by_an_exception) throw std::runtime_error("no more memory");
    });
    CAPTURE(errors[0]);
    const bool unwound = stop == Stop::by_an_exception || stop == Stop::before_an_update;
    CHECK(errors[0].find(unwound ? "rank 1 cpu:1 was unwound by an exception as it followed"
                                 : "rank 1 cpu:1 has stopped following before generation") != std::string::npos);
    CHECK(std::chrono::steady_clock::now() - begun < std::chrono::seconds(20));
  }
}

TEST_CASE("follow, several processes: a follower hears of a failure, and of a step that does not come, by name") {
  for (const bool fails : {true, false}) {
    SyncOptions options;
    if (!fails) options.fail_after = std::chrono::milliseconds(400);
    ProcessThreads group({1, 1});
    std::atomic<bool> over = false;
    const auto errors = group.run(options, [&](std::size_t rank, GradientSync& sync) {
      auto replicas = sync.replicate(Model());
      const Device own = device(rank);
      if (rank == 1) {
        sync.leave(own, Follow::yes);
        try {
          while (sync.follow(own)) {
          }
        } catch (...) {
          over = true;
          throw;
        }
        return;
      }
      for (int i = 0; i < 3; ++i) {
        if (i == 2 && fails) sync.step(own, 1, [](Step&) { throw std::runtime_error("no more data"); });
        while (i == 2 && !over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        replicas[0].zero_grad();
        sync.step(own, 1, [&](Step& step) {
          step.backward(replicas[0].loss(Tensor(Array::from(std::vector<std::int64_t>{1, 2}, {2}, own))));
        });
      }
    });
    CAPTURE(errors[1]);
    CHECK(errors[1].find(fails ? "rank 0 cpu:0 failed in generation 3: no more data" : "for the step of rank 0") !=
          std::string::npos);
    CHECK(errors[0] != "");
  }
}

TEST_CASE("follow, several processes: a follower waits with a deadline behind a check, too") {
  SyncOptions options;
  options.fail_after = std::chrono::milliseconds(400);
  ProcessThreads group({1, 2});
  std::atomic<bool> over = false;
  const auto errors = group.run(options, [&](std::size_t rank, GradientSync& sync) {
    auto replicas = sync.replicate(Model());
    const auto of_devices = errors_of_devices(replicas.size(), [&](std::size_t place) {
      const Device own = device(rank + place);
      if (rank == 1 && place == 1) {
        sync.leave(own, Follow::yes);
        try {
          while (sync.follow(own)) {
          }
        } catch (...) {
          over = true;
          throw;
        }
        return;
      }
      sync.step(own, 1, [&](Step& step) { step.backward(two_words(replicas[place], own)); });
      sync.check_consistency(own);
      while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
    if (rank == 1) throw std::runtime_error(of_devices[1]);
  });
  CAPTURE(errors[1]);
  CHECK(errors[1].find("[sync] rank 1 waited") != std::string::npos);
}

TEST_CASE("follow, several processes: other first values, a follower's or another's, are told by name where they can") {
  for (const std::size_t differs : {1, 2}) {
    CAPTURE(differs);
    ProcessThreads group({1, 1, 1});
    const auto errors = group.run({}, [&](std::size_t rank, GradientSync& sync) {
      Model model;
      if (rank == differs) model.output.bias.set_array(Array::full({3}, 2.0, DType::f32, cpu(0)));
      auto replicas = sync.replicate(model);
      const Device own = device(rank);
      if (rank == 2) {
        sync.leave(own, Follow::yes);
        while (sync.follow(own)) {
        }
        return;
      }
      sync.step(own, 1, [&](Step& step) { step.backward(two_words(replicas[0], own)); });
    });
    for (const std::string& error : errors) {
      CAPTURE(error);
      CHECK(error.find(differs == 1 ? "the first value of parameter \"output.bias\" is not the same on rank 1"
                                    : "begin with other values") != std::string::npos);
    }
  }
}

TEST_SUITE_END();
