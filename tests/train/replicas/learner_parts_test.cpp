// SPDX-License-Identifier: Apache-2.0
// What a learner is made of: parts that are missing, and data that were divided among other devices.
#include <tutti/train/learner.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/test_devices.h>
#include <tutti/tests/train/linear_training.h>
#include <tutti/train/data/joined.h>
#include <tutti/train/data/mapped.h>
#include <tutti/train/data/prefetch.h>
#include <tutti/train/data/window_stream.h>

#include <doctest/doctest.h>

using namespace tutti;

namespace {

using Learner = LinearLearner;
using Evaluation = LearnerOptions::Evaluation;

/// Batches of 24 examples for so many devices.
BatchStream batches_for(std::size_t devices) {
  const Batch all = random_batch(24, 5);
  return {Examples{all.inputs.array(), all.targets.array()}, {.batch = 2, .devices = test_devices(devices)}};
}

Learner::Parts parts(std::size_t data_devices) {
  return {.optimizer = [](Linear& model) { return std::make_unique<Sgd>(model.parameters(), 0.1); },
          .data = [=](std::size_t d) { return batches_for(data_devices).stream(d); },
          .losses = linear_losses};
}

/// On two devices.
std::unique_ptr<Learner> make(Learner::Parts parts, Evaluation evaluation = Evaluation::main) {
  auto learner = std::make_unique<Learner>(linear_network(), std::move(parts),
                                           LearnerOptions{.devices = test_devices(2), .evaluation = evaluation});
  for (std::size_t d = 0; d < 2; ++d) learner->trainer(d).set_log([](std::string_view) {});
  return learner;
}

void check_refused(Learner::Parts parts, const char* why, Evaluation evaluation = Evaluation::main) {
  CHECK_THROWS_WITH_AS(make(std::move(parts), evaluation), doctest::Contains(why), Error);
}

constexpr const char* kOfThree = "[learner] the training data are divided among 3 devices, and 2 would read them";

}  // namespace

TEST_SUITE_BEGIN("cpu");  // groups of devices: each kind has an engine of its own

TEST_CASE("DataParallelLearner: data that are divided among another number of devices are refused") {
  CHECK(make(parts(2))->data(1).devices() == 2);
  check_refused(parts(3), kOfThree);
  auto wrapped = parts(3);
  wrapped.data = [](std::size_t d) {
    return prefetch(mapped(joined(batches_for(3).stream(d), 2), [](Batch batch) { return batch; }));
  };
  check_refused(wrapped, kOfThree);
  auto own = parts(2);  // each device has data to itself
  own.data = [](std::size_t) { return batches_for(1).stream(); };
  CHECK(make(own)->data(1).devices() == 1);
}

TEST_CASE("DataParallelLearner: so are windows, as they are opened") {
  auto windowed = parts(2);
  windowed.data = [](std::size_t d) {
    return std::make_unique<WindowStream<Batch>>(
        3, [=](std::int64_t window) { return batches_for(window == 1 ? 3 : 2).stream(d); });
  };
  const auto learner = make(windowed);
  CHECK_THROWS_WITH_AS(learner->train({.epochs = 1}), doctest::Contains(kOfThree), Error);
  CHECK(learner->main().iteration() == 6);  // those of the first window
}

TEST_CASE("DataParallelLearner: data of an evaluation are divided among the devices that evaluate") {
  auto made = parts(2);
  made.evaluation_data = [](std::size_t d) { return batches_for(2).stream(d); };
  CHECK_NOTHROW(make(made, Evaluation::all));
  check_refused(made,
                "[learner] the evaluation data are divided among 2 devices, and 1 would read them: LearnerOptions");
  made.evaluation_data = [](std::size_t d) { return batches_for(3).stream(d); };
  check_refused(made, "[learner] the evaluation data are divided among 3 devices, and 2 would read them",
                Evaluation::all);
  made.evaluation_data = [](std::size_t) { return batches_for(1).stream(); };
  CHECK_NOTHROW(make(made));
}

TEST_CASE("DataParallelLearner: a part that is missing or null is named") {
  const auto without = [](auto clear, const char* why) {
    auto made = parts(2);
    clear(made);
    check_refused(made, why);
  };
  without([](auto& p) { p.optimizer = nullptr; }, "[learner] Parts::optimizer is not set");
  without([](auto& p) { p.data = nullptr; }, "[learner] Parts::data is not set");
  without([](auto& p) { p.losses = nullptr; }, "[learner] Parts::losses is not set");
  without([](auto& p) { p.optimizer = [](Linear&) { return nullptr; }; },
          "[learner] Parts::optimizer made nothing for device 0");
  without([](auto& p) { p.sparse_optimizer = [](Linear&) { return nullptr; }; },
          "[learner] Parts::sparse_optimizer made nothing for device 0");
  without([](auto& p) { p.data = [](std::size_t d) { return d == 0 ? batches_for(2).stream(d) : nullptr; }; },
          "[learner] Parts::data made nothing for device 1");
  without([](auto& p) { p.evaluation_data = [](std::size_t) { return nullptr; }; },
          "[learner] Parts::evaluation_data made nothing for device 0");
}

TEST_SUITE_END();
