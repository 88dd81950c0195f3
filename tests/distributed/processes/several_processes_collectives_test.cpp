// SPDX-License-Identifier: Apache-2.0
// Users' collectives in groups of several processes, which here are threads of one: what they give, and when.
#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/distributed/sync_server.h>
#include <tutti/nn/linear.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/distributed/processes/process_threads.h>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

constexpr std::size_t kDevices = 4;
const std::vector<std::vector<std::uint32_t>> kSplits{{2, 2}, {1, 1, 1, 1}, {3, 1}};

Device device(std::size_t number) { return cpu(static_cast<std::uint16_t>(number)); }

Tensor drawn(std::size_t number, std::uint64_t stream, const Shape& shape, DType dtype = DType::f32) {
  return Tensor(Generator(11, stream * kDevices + number).normal(shape, DType::f32, device(number)).cast(dtype));
}

/// What each device holds at the end, by number.
using ByDevice = std::vector<std::vector<double>>;
using Work = std::function<std::vector<double>(GradientSync&, std::size_t number)>;

ByDevice alone(const Work& work) {
  GradientSync sync({cpu(0), cpu(1), cpu(2), cpu(3)});
  ByDevice results(kDevices);
  run_devices(kDevices, [&](std::size_t number) { results[number] = work(sync, number); });
  return results;
}

ByDevice split_up(const std::vector<std::uint32_t>& split, const Work& work) {
  ProcessThreads group(split);
  ByDevice results(kDevices);
  const auto errors = group.run({}, [&](std::size_t rank, GradientSync& sync) {
    run_devices(split[rank], [&](std::size_t place) {
      const std::size_t number = group.first_of(rank) + place;
      results[number] = work(sync, number);
    });
  });
  for (const std::string& error : errors) CHECK(error == "");
  return results;
}

void append(std::vector<double>& all, const Tensor& tensor) {
  const auto values = Tensor(tensor.array().cast(DType::f64)).to_vector<double>();
  all.insert(all.end(), values.begin(), values.end());
}

/// Device `number` as a group of one process names it, or a group of several.
Member member(const GradientSync& sync, std::size_t number) {
  return const_cast<GradientSync&>(sync).server().members().group()[number];
}

}  // namespace

TEST_CASE("several_processes, collectives: every kind gives what one process gives, in any split") {
  const Work work = [](GradientSync& sync, std::size_t number) {
    const Device own = device(number);
    std::vector<double> all;
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::i64})
      for (const auto operation : {CollectiveOperation::sum, CollectiveOperation::max, CollectiveOperation::min})
        append(all, sync.all_reduce(own, drawn(number, 1, {7, 3}, dtype), operation).resolve());
    append(all, sync.all_reduce(own, drawn(number, 2, {}), CollectiveOperation::mean).resolve());
    append(all, sync.reduce_scatter(own, drawn(number, 3, {6, 2})).resolve());
    append(all, sync.reduce_scatter(own, drawn(number, 4, {6}), CollectiveOperation::mean, {0, 5, 0, 1}).resolve());
    append(all, sync.all_gather(own, drawn(number, 5, {static_cast<std::int64_t>(number), 3})).resolve());
    append(all, sync.all_to_all(own, drawn(number, 6, {5 + static_cast<std::int64_t>(number), 2})).resolve());
    for (std::size_t root = 0; root < kDevices; ++root)
      append(all, sync.broadcast(own, drawn(number, 7 + root, {3}), member(sync, root)).resolve());
    sync.barrier(own);
    append(all, sync.all_reduce(own, drawn(number, 20, {100'003})).resolve());  // several pieces
    return all;
  };
  const ByDevice expected = alone(work);
  for (const auto& split : kSplits) CHECK(split_up(split, work) == expected);
}

TEST_CASE("several_processes, collectives: gradients pass through them as in one process") {
  const Work work = [](GradientSync& sync, std::size_t number) {
    const Device own = device(number);
    const Tensor x = Tensor(drawn(number, 1, {4, 2}).array(), number != 1);  // one device's input has no gradient
    const Tensor gathered = sync.all_gather(own, square(x)).resolve();
    const Tensor shared = sync.all_reduce(own, gathered * static_cast<double>(number + 1)).resolve();
    const Tensor part = sync.reduce_scatter(own, shared * gathered).resolve();
    const Tensor root = sync.broadcast(own, sum(part), member(sync, 3)).resolve();
    backward(sum(part * part) + root);
    std::vector<double> all;
    append(all, part);
    if (number != 1) append(all, x.grad());
    return all;
  };
  const ByDevice expected = alone(work);
  for (const auto& split : kSplits) CHECK(split_up(split, work) == expected);
}

namespace {

struct Model : Module {
  explicit Model(Generator random) : hidden(9, 17, random), output(17, 5, random) {}
  Tensor forward(const Tensor& x) const { return output.forward(tanh(hidden.forward(x))); }
  void visit(MemberVisitor& v) override {
    v.module("hidden", hidden);
    v.module("output", output);
  }
  Linear hidden;
  Linear output;
};

void train_step(GradientSync& sync, Model& model, Optimizer& optimizer, std::size_t number, int i) {
  optimizer.zero_grad();
  auto step = sync.step(device(number));
  step.backward(mean(square(model.forward(drawn(number, 100 + static_cast<std::uint64_t>(i), {3, 9})))));
  optimizer.step();
}

}  // namespace

// Each process posts and resolves them at other places of its steps: neither waits for the other's order.
TEST_CASE("several_processes, collectives: they come before, in and between steps, and whenever somebody resolves") {
  constexpr int kSteps = 30;
  const Work work = [](GradientSync& sync, std::size_t number) {
    const Device own = device(number);
    std::vector<PendingTensor> pending;
    std::vector<double> all;
    pending.push_back(sync.all_reduce(own, drawn(number, 1, {5})));  // before there is a model
    Model model = clone(Model(Generator(3)), own);
    sync.attach(own, model);
    Sgd optimizer(model.parameters(), 0.05, {.momentum = 0.9});
    for (int i = 0; i < kSteps; ++i) {
      pending.push_back(sync.all_reduce(own, drawn(number, 2, {40'000})));
      if (number % 2 == 0) append(all, pending.back().resolve());
      train_step(sync, model, optimizer, number, i);
      if (number % 2 != 0) append(all, pending.back().resolve());
      static_cast<void>(sync.all_gather(own, drawn(number, 3, {2})));  // nobody resolves it
    }
    append(all, pending.front().resolve());
    for (const Tensor& parameter : model.parameters()) append(all, parameter);
    sync.leave(own);
    append(all, sync.all_reduce(own, drawn(number, 4, {5})).resolve());  // also after it has left
    return all;
  };
  const ByDevice expected = alone(work);
  for (const auto& split : kSplits) CHECK(split_up(split, work) == expected);
}

TEST_CASE("several_processes, collectives: calls that differ are an error on every process, with both calls") {
  ProcessThreads group({1, 1});
  const auto errors = group.run({}, [](std::size_t rank, GradientSync& sync) {
    sync.barrier(device(rank));
    const Tensor x = drawn(rank, 1, {3});
    if (rank == 0)
      sync.all_reduce(device(rank), x).resolve();
    else
      sync.all_reduce(device(rank), x, CollectiveOperation::max).resolve();
  });
  for (const std::string& error : errors) {
    CAPTURE(error);
    CHECK(error.find("collective 2 is all_reduce sum [3] f32 on rank 0 cpu:0 and all_reduce max [3] f32 on rank 1 "
                     "cpu:1") != std::string::npos);
  }
}

TEST_CASE("several_processes, collectives: a process that does not post is named by the deadline") {
  for (const std::size_t late : {0, 1}) {
    ProcessThreads group({1, 1});
    SyncOptions options;
    options.fail_after = std::chrono::milliseconds(400);
    options.warn = [](const std::string&) {};
    std::string error;
    group.run(options, [&](std::size_t rank, GradientSync& sync) {
      if (rank == late) {
        while (!sync.server().has_failed()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
        return;
      }
      try {
        sync.all_reduce(device(rank), drawn(rank, 1, {3})).resolve();
      } catch (const SyncError& caught) {
        error = caught.what();
      }
    });
    CAPTURE(error);
    CHECK(error.find("missing collective 1 (all_reduce sum [3] f32) from rank " + std::to_string(late)) !=
          std::string::npos);
    CHECK(error.find("; posted by rank " + std::to_string(1 - late)) != std::string::npos);
  }
}

// Each waits for the other: the error is of what only one can know.
TEST_CASE("several_processes, collectives: one that the others' next step stands for is named on all") {
  for (const std::size_t poster : {0, 1}) {
    ProcessThreads group({1, 1});
    SyncOptions options;
    options.fail_after = std::chrono::milliseconds(2000);
    options.warn = [](const std::string&) {};
    std::atomic<bool> posted{false};
    const auto errors = group.run(options, [&](std::size_t rank, GradientSync& sync) {
      Generator random(1);
      auto replicas = sync.replicate(Linear(3, 1, random));
      if (rank == poster) {
        auto pending =
            sync.all_reduce(device(rank), drawn(rank, 1, {3}), CollectiveOperation::sum, "the loss of epoch 3");
        posted.store(true);
        posted.notify_all();
        pending.resolve();
      }
      posted.wait(false);
      auto step = sync.step(device(rank));
      step.backward(sum(replicas[0](drawn(rank, 2, {2, 3}))));
    });
    for (const std::string& error : errors) {
      CAPTURE(error);
      CHECK(error.find("missing collective 1 (all_reduce sum [3] f32 for the loss of epoch 3) from rank " +
                       std::to_string(1 - poster) + "; posted by rank " + std::to_string(poster)) != std::string::npos);
    }
  }
}

TEST_CASE("several_processes, collectives: those for different purposes are told apart") {
  ProcessThreads group({1, 1});
  const auto errors = group.run({}, [&](std::size_t rank, GradientSync& sync) {
    sync.barrier(device(rank), "both");
    sync.barrier(device(rank), rank == 0 ? "an evaluation" : "step 12");
  });
  for (const std::string& error : errors) {
    CAPTURE(error);
    CHECK(error.find("collective 2 is barrier for an evaluation on rank 0 cpu:0 and barrier for step 12 on rank 1 "
                     "cpu:1") != std::string::npos);
  }
}

TEST_CASE("several_processes, collectives: one that another process has closed its group before fails, naming it") {
  ProcessThreads group({1, 1});
  std::string error;
  const auto errors = group.run({}, [&](std::size_t rank, GradientSync& sync) {
    sync.barrier(device(rank));
    if (rank == 1) return;
    try {
      sync.all_reduce(device(rank), drawn(rank, 1, {3})).resolve();
    } catch (const SyncError& caught) {
      error = caught.what();
    }
  });
  for (const std::string& each : errors) CHECK(each == "");
  CAPTURE(error);
  CHECK(error.find("rank 1 has closed its group, and collective 2 (all_reduce sum [3] f32) waits for it") !=
        std::string::npos);
}

TEST_CASE("several_processes, collectives: an exception in one process ends the others' waits with its text") {
  ProcessThreads group({1, 1});
  const auto errors = group.run({}, [&](std::size_t rank, GradientSync& sync) {
    if (rank == 1) sync.fail(device(1), std::make_exception_ptr(std::runtime_error("the disk is full")));
    sync.all_reduce(device(rank), drawn(rank, 1, {3})).resolve();
  });
  for (const std::string& error : errors) {
    CAPTURE(error);
    CHECK(error.find("the disk is full") != std::string::npos);
  }
}

// One that said that it has posted, and then was killed.
TEST_CASE("several_processes, collectives: who waits for a process that has died is told at once") {
  ProcessThreads group({1, 1});
  std::string error;
  const auto started = std::chrono::steady_clock::now();
  run_devices(2, [&](std::size_t rank) {
    auto engine = group.engine(rank);
    if (rank == 1) {
      std::atomic<bool> heard{false};
      group.links[1]->open(
          {.said = [&](ProcessLink::Line, const auto&) { heard = true; }, .ended = [](const auto&) {}});
      const CollectiveCall call{.kind = CollectiveKind::all_reduce, .shape = {3}};
      group.links[1]->say(ProcessLink::Line::collectives, words_of({1, {call}, false}));
      while (!heard) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::this_thread::sleep_for(std::chrono::milliseconds(50));  // rank 0 waits in its reduction
      group.links[1]->end({1, "[sync] rank 1 has died", 0, false});
      group.links[1]->close();
      return;
    }
    GradientSync sync(group.devices_of(0), {}, std::move(engine), std::move(group.links[0]));
    try {
      sync.all_reduce(device(0), drawn(0, 1, {3})).resolve();
    } catch (const SyncError& caught) {
      error = caught.what();
    }
  });
  CAPTURE(error);
  CHECK(error.find("rank 1 has died") != std::string::npos);
  CHECK(std::chrono::steady_clock::now() - started < std::chrono::seconds(20));  // not the engine's patience, 30 s
}

TEST_CASE("several_processes, collectives: who waits for one that a dead process has not posted is told of all") {
  for (const bool steps : {false, true}) {
    CAPTURE(steps);
    ProcessThreads group({1, 1});
    ProcessLink& link = *group.links[1];
    std::atomic<bool> posted{false};
    const auto errors = group.run({}, [&](std::size_t rank, GradientSync& sync) {
      std::vector<Model> replicas;
      if (steps) {
        replicas = sync.replicate(Model(Generator(3)));
        Sgd optimizer(replicas[0].parameters(), 0.05);
        train_step(sync, replicas[0], optimizer, rank, 0);
      }
      sync.barrier(device(rank));
      if (rank == 1) {
        for (int i = 0; i < 60'000 && !posted; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return link.end({1, "[sync] rank 1 has died", 0, false});
      }
      PendingTensor pending = sync.all_reduce(device(0), drawn(0, 1, {3}));
      posted = true;
      pending.resolve();
    });
    CAPTURE(errors[0]);
    CHECK(errors[0].find(steps ? "rank 1 has died; collective 2 (all_reduce sum [3] f32) and generation 2 are not"
                               : "rank 1 has died; collective 2 (all_reduce sum [3] f32) is not") != std::string::npos);
  }
}

// The others reduce with it, though nobody here waits for the result.
TEST_CASE("several_processes, collectives: one that a process drops before it closes its group is done all the same") {
  for (const bool steps : {false, true}) {
    ProcessThreads group({1, 1});
    std::vector<double> sum;
    const auto errors = group.run({}, [&](std::size_t rank, GradientSync& sync) {
      std::vector<Model> replicas;
      if (steps) {
        replicas = sync.replicate(Model(Generator(3)));
        Sgd optimizer(replicas[0].parameters(), 0.05);
        train_step(sync, replicas[0], optimizer, rank, 0);
        sync.leave(device(rank));
      }
      PendingTensor pending = sync.all_reduce(device(rank), drawn(rank, 1, {300'000}));
      if (rank == 1) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      append(sum, pending.resolve());
    });
    for (const std::string& error : errors) CHECK(error == "");
    CHECK(sum.size() == 300'000);
  }
}

// Rank 1 needs the second collective before its bucket of the second layer is complete.
TEST_CASE("several_processes, collectives: who waits in one waits for no bucket that others launch behind it") {
  struct Layered : Module {
    explicit Layered(Generator random) : first(4, 4, random), second(4, 4, random) {}
    void visit(MemberVisitor& v) override {
      v.module("first", first);
      v.module("second", second);
    }
    Linear first;
    Linear second;
  };
  ProcessThreads group({1, 1});
  const auto errors = group.run({.bucket_bytes = 1}, [&](std::size_t rank, GradientSync& sync) {
    auto replicas = sync.replicate(Layered(Generator(3)));
    const auto shared = [&](const Tensor& x) { return sync.all_reduce(device(rank), x).resolve(); };
    Sgd optimizer(replicas[0].parameters(), 0.05);
    for (int i = 0; i < 3; ++i) {
      optimizer.zero_grad();
      auto step = sync.step(device(rank));
      Tensor x = replicas[0].first.forward(drawn(rank, 1, {2, 4}));
      if (rank == 1) x = replicas[0].second.forward(x);
      x = replicas[0].second.forward(shared(shared(x)));
      step.backward(mean(square(x)));
    }
  });
  for (const std::string& error : errors) CHECK(error == "");
}

TEST_CASE("several_processes, collectives: a root that no process has is refused before anything is posted") {
  ProcessThreads group({1, 1});
  const auto errors = group.run({}, [&](std::size_t rank, GradientSync& sync) {
    CHECK_THROWS_WITH_AS(static_cast<void>(sync.broadcast(device(rank), drawn(rank, 1, {3}), Member{1, cpu(7)})),
                         "[sync] rank 1 cpu:7 is not in this group", SyncError);
    sync.barrier(device(rank));
  });
  for (const std::string& error : errors) CHECK(error == "");
}

TEST_SUITE_END();
