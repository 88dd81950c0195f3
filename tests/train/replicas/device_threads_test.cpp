// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/device_threads.h>

#include <tutti/backend/error.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/test_devices.h>
#include <tutti/tests/train/linear_training.h>

#include <doctest/doctest.h>

#include <array>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

TEST_SUITE_BEGIN("cpu");  // groups of devices: each kind has an engine of its own

using namespace tutti;
using namespace std::chrono_literals;

namespace {

class BreakingSgd final : public Sgd {
 public:
  BreakingSgd(std::vector<Tensor> parameters, bool breaks) : Sgd(std::move(parameters), 0.1), breaks_(breaks) {}

 protected:
  void update(std::span<const Update> updates) override {
    if (breaks_) throw std::runtime_error("no memory for moments");
    Sgd::update(updates);
  }

 private:
  bool breaks_;
};

}  // namespace

TEST_CASE("on_every_device: a device that throws between steps ends the others' waits with its error") {
  GradientSync sync(test_devices(3), {.fail_after = 60s});
  std::array<std::string, 3> heard;
  const auto work = [&](std::size_t d) {
    sync.step(test_device(d)).synchronize();
    if (d == 1) throw std::runtime_error("no data");
    try {
      sync.step(test_device(d)).synchronize();
    } catch (const SyncError& error) {
      heard[d] = error.what();
      throw;
    }
  };
  CHECK_THROWS_WITH_AS(on_every_device(sync, work), "no data", std::runtime_error);
  for (const std::size_t d : {std::size_t{0}, std::size_t{2}}) {
    CHECK_MESSAGE(heard[d].find("cpu:1") != std::string::npos, heard[d]);
    CHECK_MESSAGE(heard[d].find("no data") != std::string::npos, heard[d]);
  }
}

TEST_CASE("on_every_device: the work may close its group, and who returns stays a member") {
  GradientSync sync(test_devices(2), {.fail_after = 60s});
  for (int i = 0; i < 2; ++i) on_every_device(sync, [&](std::size_t d) { sync.step(test_device(d)).synchronize(); });
  CHECK_THROWS_AS(on_every_device(sync,
                                  [&](std::size_t d) {
                                    if (d == 0) sync.close();
                                    throw std::runtime_error("afterwards");
                                  }),
                  std::runtime_error);
}

TEST_CASE("EagerTrainer: what an optimizer throws is what the other devices hear") {
  GradientSync sync(test_devices(2), {.fail_after = 60s});
  auto replicas = sync.replicate(linear_network());
  std::array<std::string, 2> heard;
  const auto work = [&](std::size_t d) {
    BreakingSgd optimizer(replicas[d].parameters(), d == 1);
    ListStream stream({random_batch(4, 1, test_device(d)), random_batch(4, 2, test_device(d))});
    EagerTrainer<Batch> trainer(replicas[d], optimizer, stream,
                                [&](const Batch& batch) { return linear_losses(replicas[d], batch); },
                                {.sync = &sync, .device = test_device(d)});
    trainer.set_log([](std::string_view) {});
    try {
      trainer.train({.steps = 2});
    } catch (const std::exception& error) {
      heard[d] = error.what();
    }
  };
  on_every_device(sync, work);
  CHECK(heard[1] == "no memory for moments");
  CHECK_MESSAGE(heard[0].find("no memory for moments") != std::string::npos, heard[0]);
}

TEST_SUITE_END();
