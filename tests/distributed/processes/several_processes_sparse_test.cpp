// SPDX-License-Identifier: Apache-2.0
// Sparse gradients of groups of several processes, which here are threads of one.
#include <tutti/autodiff/operations.h>
#include <tutti/nn/embedding.h>
#include <tutti/nn/linear.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/distributed/processes/process_threads.h>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

constexpr std::size_t kDevices = 4;
constexpr int kSteps = 8;

struct WordsModel : Module {
  explicit WordsModel(Generator random) : words(500, 24, random, {.sparse = true}), output(24, 3, random) {}
  Tensor forward(const Tensor& tokens) const { return output.forward(tanh(words.forward(tokens))); }
  void visit(MemberVisitor& v) override {
    v.module("words", words);
    v.module("output", output);
  }
  Embedding words;
  Linear output;
};

/// Part of a device in a step: number of its tokens; 0: it reads none, and needs the output alone.
using Tokens = std::function<std::int64_t(std::size_t number, int step)>;

std::vector<float> train(GradientSync& sync, WordsModel& model, std::size_t number, const Tokens& tokens_of,
                         int steps = kSteps) {
  const Device device = cpu(static_cast<std::uint16_t>(number));
  Sgd optimizer(model.parameters(), 0.1);
  for (int i = 0; i < steps; ++i) {
    Generator random(7, static_cast<std::uint64_t>(i) * kDevices + number);
    const std::int64_t count = tokens_of(number, i);
    std::vector<std::int64_t> tokens;
    for (std::int64_t t = 0; t < count; ++t) tokens.push_back(static_cast<std::int64_t>(random.below(500)));
    optimizer.zero_grad();
    auto step = sync.step(device, 1.0 + static_cast<double>(number));
    const Tensor y = count > 0 ? model.forward(Tensor(Array::from(tokens, {count}, device)))
                               : model.output.forward(Tensor(random.normal({5, 24}, DType::f32, device)));
    step.backward(mean(square(y - 1.0)));
    optimizer.step();
  }
  sync.leave(device);
  std::vector<float> values;
  for (const Tensor& parameter : model.parameters())
    for (const float value : parameter.array().to_vector<float>()) values.push_back(value);
  return values;
}

/// Parameters of each device.
std::vector<std::vector<float>> trained_by_one_process(const SyncOptions& options, const Tokens& tokens) {
  GradientSync sync({cpu(0), cpu(1), cpu(2), cpu(3)}, options);
  auto replicas = sync.replicate(WordsModel(Generator(1)));
  std::vector<std::vector<float>> values(kDevices);
  run_devices(kDevices, [&](std::size_t number) { values[number] = train(sync, replicas[number], number, tokens); });
  return values;
}

// Between processes that share memory, and that are connected.
void check_all_splits(const SyncOptions& options, const Tokens& tokens) {
  const auto expected = trained_by_one_process(options, tokens);
  for (const bool connects : {false, true})
    for (const std::vector<std::uint32_t>& split : {std::vector<std::uint32_t>{2, 2}, {1, 1, 1, 1}, {1, 3}, {3, 1}}) {
      CAPTURE(connects);
      ProcessThreads group(split, connects);
      std::vector<std::vector<float>> values(kDevices);
      const auto errors = group.run(options, [&](std::size_t rank, GradientSync& sync) {
        auto replicas = sync.replicate(WordsModel(Generator(1)));
        run_devices(split[rank], [&](std::size_t d) {
          const std::size_t number = group.first_of(rank) + d;
          values[number] = train(sync, replicas[d], number, tokens);
        });
      });
      for (const std::string& error : errors) CHECK(error == "");
      CHECK(values == expected);
    }
}

}  // namespace

// 3,000 tokens of a device have 300 KB of rows: they do not fit a slot's 64 KB, nor the window of a connection.
TEST_CASE("several_processes, sparse: rows of all devices have the bits of one process, few and many") {
  check_all_splits({}, [](std::size_t number, int step) { return static_cast<std::int64_t>(3 + number + step); });
  check_all_splits({}, [](std::size_t number, int) { return number == 1 ? 3000 : 40; });
}

TEST_CASE("several_processes, sparse: also where devices, or whole processes, read no row") {
  for (const Absent absent : {Absent::zero, Absent::subset}) {
    SyncOptions options;
    options.absent = absent;
    check_all_splits(options, [](std::size_t number, int step) {
      return number < 2 || (number + static_cast<std::size_t>(step)) % 3 == 0 ? 0 : 9;
    });
  }
}

TEST_CASE("several_processes, sparse: who has left reduces rows with the others") {
  for (const bool connects : {false, true}) {
    ProcessThreads group({1, 1}, connects);
    std::vector<std::vector<float>> values(2);
    const auto errors = group.run({}, [&](std::size_t rank, GradientSync& sync) {
      auto replicas = sync.replicate(WordsModel(Generator(1)));
      values[rank] = train(
          sync, replicas[0], rank, [](auto, auto) { return 5; }, rank == 0 ? kSteps : 2);
    });
    for (const std::string& error : errors) CHECK(error == "");
    CHECK(values[0] != values[1]);
  }
}

TEST_CASE("several_processes, sparse: one that fails amid its steps is named by all others, and nobody hangs") {
  for (const bool connects : {false, true}) {
    ProcessThreads group({1, 2}, connects);
    const auto errors = group.run({}, [&](std::size_t rank, GradientSync& sync) {
      auto replicas = sync.replicate(WordsModel(Generator(1)));
      run_devices(group.split[rank], [&](std::size_t d) {
        const std::size_t number = group.first_of(rank) + d;
        train(sync, replicas[d], number, [&](std::size_t device, int step) -> std::int64_t {
          if (device == 0 && step == 3) throw std::runtime_error("no data");
          return 50;
        });
      });
    });
    CHECK(errors[0] == "no data");
    CHECK_MESSAGE(errors[1].find("rank 0") != std::string::npos, errors[1]);
  }
}

TEST_SUITE_END();
