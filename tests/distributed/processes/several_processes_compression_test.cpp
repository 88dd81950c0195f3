// SPDX-License-Identifier: Apache-2.0
// Compressed gradients of groups of several processes, which here are threads of one.
#include <tutti/backend/error.h>
#include <tutti/distributed/power_sgd.h>
#include <tutti/distributed/sync_server.h>
#include <tutti/tests/distributed/processes/process_threads.h>
#include <tutti/tests/distributed/sharded/sharded_training.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <stdexcept>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

constexpr std::size_t kDevices = 4;
const std::vector<std::vector<std::uint32_t>> kSplits{{2, 2}, {1, 1, 1, 1}, {1, 3}};

using State = std::map<std::string, std::vector<float>>;

/// A training of four devices. The model has matrices, vectors and a number; some steps use no `right`.
struct Run {
  SyncOptions options = {};
  PowerSgdOptions power = {.rank = 2, .start_after = 2, .minimum_rate = 1};
  int steps = 16;
  std::function<int(std::size_t number)> leaves_after = {};  ///< none: all take all steps
  GradientCompression::State load = {};
};

struct Outcome {
  std::vector<std::vector<float>> parameters = std::vector<std::vector<float>>(kDevices);  // by device
  GradientCompression::State state;                                                        // of all processes
};

State floats_of(const GradientCompression::State& state) {
  State floats;
  for (const auto& [name, array] : state) floats[name] = array.cast(DType::f32).to_vector<float>();
  return floats;
}

/// Adds what one process keeps: what it has in common with others is the same.
void merge(GradientCompression::State& all, const GradientCompression::State& own) {
  const State known = floats_of(all);
  for (const auto& [name, floats] : floats_of(own))
    if (const auto found = known.find(name); found != known.end()) {
      CAPTURE(name);
      CHECK(found->second == floats);
    } else {
      all.push_back(*std::ranges::find(own, name, &GradientCompression::State::value_type::first));
    }
}

void train(GradientSync& sync, std::size_t first, const Run& run, PowerSgd& power, Outcome& outcome) {
  auto replicas = sync.replicate(Branching{});
  if (!run.load.empty()) power.load_state(run.load);
  run_devices(replicas.size(), [&](std::size_t place) {
    const std::size_t number = first + place;
    const Device device = sync.devices()[place];
    const auto optimizer = sgd()(replicas[place].parameters());
    const int steps = run.leaves_after ? std::min(run.steps, run.leaves_after(number)) : run.steps;
    for (int i = 0; i < steps; ++i) {
      optimizer->zero_grad();
      auto step = sync.step(device, Branching::weight(i, device));
      step.backward(replicas[place].loss(i, device));
      optimizer->step();
    }
    if (run.options.overlap == Overlap::double_buffered && sync.flush(device)) optimizer->step();
    sync.leave(device);
    outcome.parameters[number] = values_of(replicas[place]);
    sync.barrier(device);  // all have taken all steps
  });
}

SyncOptions with(SyncOptions options, std::shared_ptr<PowerSgd> power) {
  options.bucket_bytes = 1500;  // several buckets, some with matrices and vectors
  options.compression = std::move(power);
  return options;
}

Outcome in_one_process(const Run& run) {
  Outcome outcome;
  const auto power = std::make_shared<PowerSgd>(run.power);
  GradientSync sync({cpu(0), cpu(1), cpu(2), cpu(3)}, with(run.options, power));
  train(sync, 0, run, *power, outcome);
  merge(outcome.state, power->state());
  return outcome;
}

Outcome in_processes(const std::vector<std::uint32_t>& split, const Run& run, bool connects) {
  Outcome outcome;
  ProcessThreads group(split, connects);
  std::vector<std::shared_ptr<PowerSgd>> powers;
  for (std::size_t rank = 0; rank < split.size(); ++rank) powers.push_back(std::make_shared<PowerSgd>(run.power));
  const auto errors = group.run_each(
      [&](std::size_t rank) { return with(run.options, powers[rank]); },
      [&](std::size_t rank, GradientSync& sync) { train(sync, group.first_of(rank), run, *powers[rank], outcome); });
  for (const std::string& error : errors) CHECK(error == "");
  // Once the groups have gone: whoever has left hears late that the last step is committed.
  for (const auto& power : powers) merge(outcome.state, power->state());
  return outcome;
}

void check_all_splits(const Run& run) {
  const Outcome expected = in_one_process(run);
  for (const auto& split : kSplits)
    for (const bool connects : {false, true}) {
      CAPTURE(split.size());
      CAPTURE(connects);
      const Outcome outcome = in_processes(split, run, connects);
      CHECK(outcome.parameters == expected.parameters);
      CHECK(floats_of(outcome.state) == floats_of(expected.state));
    }
}

}  // namespace

TEST_CASE("several_processes, compression: the bits of one process, in any split, over both engines") {
  check_all_splits({});
  Outcome plain = in_one_process({.power = {.start_after = 1000}});
  CHECK(in_one_process({}).parameters != plain.parameters);  // it was compressed
}

TEST_CASE("several_processes, compression: factors in 16 bits") {
  for (const auto wire : {GradientWire::bf16, GradientWire::f16})
    check_all_splits({.options = {.wire = wire}, .steps = 8});
}

TEST_CASE("several_processes, compression: double buffering") {
  check_all_splits({.options = {.overlap = Overlap::double_buffered}, .steps = 9});
}

TEST_CASE("several_processes, compression: devices that have left, whole processes too, send what they kept") {
  check_all_splits(
      {.leaves_after = [](std::size_t number) { return number == 3 ? 16 : 4 + static_cast<int>(number); }});
}

TEST_CASE("several_processes, compression: what all processes keep goes on in another split") {
  const Run first{.steps = 6};
  const Outcome saved = in_processes({1, 3}, first, false);
  Run second{.power = {.rank = 2, .start_after = 2, .minimum_rate = 1}, .steps = 5};
  second.load = saved.state;
  check_all_splits(second);
  CHECK(in_one_process(second).parameters != in_one_process({.steps = 5}).parameters);
}

TEST_CASE("several_processes, compression: a backward that fails in one process fails the step in all") {
  for (const auto& split : kSplits)
    for (const bool connects : {false, true}) {
      ProcessThreads group(split, connects);
      std::vector<std::shared_ptr<PowerSgd>> powers;
      for (std::size_t rank = 0; rank < split.size(); ++rank)
        powers.push_back(std::make_shared<PowerSgd>(PowerSgdOptions{.minimum_rate = 1}));
      std::vector<std::vector<float>> values(kDevices);
      std::vector<std::string> of_devices(kDevices);
      const auto errors = group.run_each(
          [&](std::size_t rank) { return with({}, powers[rank]); },
          [&](std::size_t rank, GradientSync& sync) {
            auto replicas = sync.replicate(Branching{});
            const auto own = errors_of_devices(replicas.size(), [&](std::size_t place) {
              const Device device = sync.devices()[place];
              const std::size_t number = group.first_of(rank) + place;
              const auto optimizer = sgd()(replicas[place].parameters());
              try {
                for (int i = 0;; ++i) {
                  optimizer->zero_grad();
                  sync.step(device, 1.0, [&](Step& step) {
                    if (i == 3 && number == 3) throw std::runtime_error("the disk is full");
                    step.backward(replicas[place].loss(i, device));
                  });
                  optimizer->step();
                }
              } catch (const std::exception&) {
                values[number] = values_of(replicas[place]);
                throw;
              }
            });
            std::ranges::copy(own, of_devices.begin() + static_cast<std::ptrdiff_t>(group.first_of(rank)));
          });
      for (const std::string& error : errors) CHECK(error == "");
      for (std::size_t number = 0; number < kDevices; ++number) {
        CAPTURE(of_devices[number]);
        CHECK(of_devices[number].find("the disk is full") != std::string::npos);
        CHECK(values[number] == values[0]);  // all have applied three steps
      }
    }
}

TEST_CASE("several_processes, compression: what differs is an error that names what each rank has") {
  const auto errors_with = [](const std::vector<std::shared_ptr<PowerSgd>>& powers) {
    ProcessThreads group({1, 1});
    return group.run_each([&](std::size_t rank) { return with({}, powers[rank]); },
                          [](std::size_t, GradientSync& sync) {
                            auto replicas = sync.replicate(Branching{});
                            auto step = sync.step(sync.devices()[0]);
                            step.backward(replicas[0].loss(1, sync.devices()[0]));
                          });
  };
  const auto check = [](const std::vector<std::string>& errors, const std::string& one, const std::string& other) {
    for (const std::string& error : errors) {
      CAPTURE(error);
      CHECK(error.find("SyncOptions::compression: " + one) != std::string::npos);
      CHECK(error.find("SyncOptions::compression: " + other) != std::string::npos);
    }
  };
  const auto power = [](const PowerSgdOptions& options) { return std::make_shared<PowerSgd>(options); };
  check(errors_with({power({.rank = 1}), power({.rank = 2})}), "PowerSgd of rank 1", "PowerSgd of rank 2");
  check(errors_with({power({}), power({.start_after = 5})}), "PowerSgd of rank 1, start_after 0",
        "PowerSgd of rank 1, start_after 5");
  check(errors_with({power({.seed = 3}), nullptr}), "PowerSgd of rank 1, start_after 0, minimum_rate 2, seed 3",
        "none");
}

TEST_CASE("several_processes, compression: a state that one process alone has loaded is an error of both") {
  const Outcome saved = in_processes({2, 2}, {.steps = 4}, false);
  ProcessThreads group({2, 2});
  const auto errors = group.run_each(
      [&](std::size_t) {
        return with({}, std::make_shared<PowerSgd>(PowerSgdOptions{.rank = 2, .start_after = 2, .minimum_rate = 1}));
      },
      [&](std::size_t rank, GradientSync& sync) {
        auto replicas = sync.replicate(Branching{});
        if (rank == 1) sync.server().options().compression->load_state(saved.state);
        run_devices(2, [&](std::size_t place) {
          auto step = sync.step(sync.devices()[place]);
          step.backward(replicas[place].loss(1, sync.devices()[place]));
        });
      });
  for (const std::string& error : errors) {
    CAPTURE(error);
    CHECK(error.find("0 steps taken") != std::string::npos);
    CHECK(error.find("4 steps taken") != std::string::npos);
  }
}

TEST_SUITE_END();
