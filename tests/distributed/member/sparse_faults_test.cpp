// SPDX-License-Identifier: Apache-2.0
// What does not fit in a sparse gradient, and what happens when a step with one fails.
#include <tutti/distributed/collectives/sparse_reduction.h>

#include <tutti/backend/error.h>
#include <tutti/backend/process/error_text.h>
#include <tutti/backend/registry.h>
#include <tutti/distributed/engines/local/local_communicator.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/distributed/sync_server.h>
#include <tutti/optim/sgd.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/distributed/ledger/ledger_driver.h>
#include <tutti/tests/distributed/word_model.h>

#include <doctest/doctest.h>

#include <atomic>
#include <limits>
#include <stdexcept>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

const SyncParameter kTable{"table", {10, 2}, DType::f64, true};

Array on(const Indices& values, Device device) {
  return Array::from(values, {static_cast<std::int64_t>(values.size())}, device);
}
SparseGradient gradient_of(const Indices& indices, Device device) {
  return {
      on(indices, device), Array::full({static_cast<std::int64_t>(indices.size()), 2}, 1, DType::f64, device), {10, 2}};
}

// What the group says when cpu:1 submits this to parameter 0.
std::string error_of(GradientRef gradient, const SyncParameter& parameter = kTable) {
  const std::vector<SyncParameter> parameters{parameter};
  DistributedSyncServer server(GroupMembers(members_of(test_devices(2))), std::make_unique<LocalCommunicator>(), {});
  for (const MemberIndex member : {0U, 1U}) server.declare_parameters(member, parameters);
  const auto arena = std::make_shared<const GradientArena>(server.layout(), parameters, cpu(1));
  server.register_parameters({1, 1, 1}, 1.0, required_set({0}), arena);
  gradient.ready = compute_stream(cpu(1)).record();
  gradient.ready.synchronize();
  server.submit({1, 1, 1}, {0}, std::move(gradient), arena.get());
  const auto waiter = server.collective_sync({1, 1, 1});
  if (!waiter->done()) return "";
  return text_of(waiter->error());
}

std::string error_of(const SparseGradient& gradient) { return error_of(GradientRef{{}, {}, false, {gradient}}); }

void check_names(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) CHECK_MESSAGE(text.find(part) != std::string::npos, text, " lacks ", part);
}

// A point that an asynchronous stream has not reached before the test lets it.
struct Gate : EventState {
  bool ready() const override { return open.load(); }
  void synchronize() override { open.wait(false); }
  std::atomic<bool> open{false};
};

// An engine of somebody's own, without sparse reductions.
struct DenseEngine : LocalCommunicator {
  std::shared_ptr<CollectiveTask> reduce_sparse(SparseReduction request) override {
    return Communicator::reduce_sparse(std::move(request));
  }
};

}  // namespace

TEST_CASE("sparse_faults: a misfit names parameter, device and value") {
  CHECK(error_of(gradient_of({1, 9}, cpu(1))).empty());
  CHECK(error_of(GradientRef{}).empty());  // zeros
  check_names(error_of(gradient_of({1, 12}, cpu(1))), {"\"table\"", "cpu:1", "index 12 of 10 rows"});
  check_names(error_of(gradient_of({-1}, cpu(1))), {"\"table\"", "index -1 of 10 rows"});
  check_names(error_of(gradient_of({1}, cpu(0))), {"\"table\"", "cpu:1", "on cpu:0"});
  SparseGradient wrong = gradient_of({1, 2}, cpu(1));
  wrong.indices = wrong.indices.cast(DType::i32);
  check_names(error_of(wrong), {"\"table\"", "i32", "i64"});
  wrong = gradient_of({1, 2}, cpu(1));
  wrong.rows = wrong.rows.cast(DType::f32);
  check_names(error_of(wrong), {"\"table\"", "f32", "f64"});
  wrong.rows = Array::zeros({2, 3}, DType::f64, cpu(1));
  check_names(error_of(wrong), {"\"table\"", "[2, 3]", "[2, 2]"});
  wrong = gradient_of({1, 2}, cpu(1));
  wrong.shape = {11, 2};
  check_names(error_of(wrong), {"\"table\"", "[11, 2]", "[10, 2]"});
  check_names(error_of(SparseGradient{}), {"\"table\"", "undefined"});
}

TEST_CASE("sparse_faults: dense and sparse gradients are told apart") {
  check_names(error_of(GradientRef{Array::zeros({10, 2}, DType::f64, cpu(1)), {}, false, {}}),
              {"\"table\"", "cpu:1", "dense", "sparse"});
  check_names(error_of(GradientRef{{}, {}, false, {gradient_of({1}, cpu(1))}}, {"table", {10, 2}, DType::f64}),
              {"\"table\"", "cpu:1", "dense", "sparse"});
}

TEST_CASE("sparse_faults: an index that is found out of range by the reduction is the task's error") {
  LocalCommunicator engine;
  auto result = std::make_shared<SparseResult>(SparseResult{{true}, {{}}});
  const auto task = engine.reduce_sparse({.parameter = kTable,
                                          .contributions = {{cpu(1), 0, {gradient_of({3, 10}, cpu(1))}}},
                                          .receivers = {cpu(1)},
                                          .ready = {compute_stream(cpu(1)).record()},
                                          .result = result});
  engine.crew().help_all(cpu(1));
  task->wait();
  check_names(text_of(task->error()), {"\"table\"", "cpu:1", "index 10 of 10 rows"});
  CHECK(result->gradients[0].empty());
}

TEST_CASE(
    "sparse_faults: indices that are not there yet are looked at by the reduction, whose error all receivers get") {
  const std::vector<SyncParameter> parameters{kTable};
  DistributedSyncServer server(GroupMembers(members_of(test_devices(2))), std::make_unique<LocalCommunicator>(), {});
  for (const MemberIndex member : {0U, 1U}) server.declare_parameters(member, parameters);
  const auto gate = std::make_shared<Gate>();
  std::vector<std::shared_ptr<SyncWaiter>> waiters;
  for (const MemberIndex member : {0U, 1U}) {
    const Device device = cpu(static_cast<std::uint16_t>(member));
    GradientRef late{{}, Event(gate), false, {gradient_of({member == 0 ? 1 : 12}, device)}};
    synchronize(device);
    const auto arena = std::make_shared<const GradientArena>(server.layout(), parameters, device);
    server.register_parameters({member, 1, 1}, 1.0, required_set({0}), arena);
    server.submit({member, 1, 1}, {0}, std::move(late), arena.get());
    waiters.push_back(server.collective_sync({member, 1, 1}));
  }
  for (const auto& waiter : waiters) {
    server.await(*waiter, 0);
    REQUIRE_FALSE(waiter->error());
  }
  const auto& reduced = waiters[0]->result()->reduced.front();
  CHECK(reduced.reaches(0));
  CHECK(reduced.reaches(1));
  CHECK_FALSE(reduced.task->finished());
  gate->open.store(true);
  gate->open.notify_all();
  CHECK_THROWS_WITH_AS(join_tasks(cpu(0), {&reduced.task, 1}),
                       doctest::Contains("cpu:1 submitted parameter \"table\" with index 12 of 10 rows"), SyncError);
}

TEST_CASE("sparse_faults: what a device of weight 0 submits is not read") {
  const std::vector<SyncParameter> parameters{kTable};
  DistributedSyncServer server(GroupMembers(members_of(test_devices(2))), std::make_unique<LocalCommunicator>(), {});
  for (const MemberIndex member : {0U, 1U}) server.declare_parameters(member, parameters);
  std::vector<std::shared_ptr<SyncWaiter>> waiters;
  for (const MemberIndex member : {0U, 1U}) {
    const Device device = cpu(static_cast<std::uint16_t>(member));
    const auto arena = std::make_shared<const GradientArena>(server.layout(), parameters, device);
    server.register_parameters({member, 1, 1}, member == 0 ? 2.0 : 0.0, required_set({0}), arena);
    GradientRef gradient{{}, {}, false, {gradient_of({5}, device)}};
    if (member == 1) gradient.rows.front().rows.fill(std::numeric_limits<double>::quiet_NaN());
    gradient.ready = compute_stream(device).record();
    server.submit({member, 1, 1}, {0}, std::move(gradient), arena.get());
    waiters.push_back(server.collective_sync({member, 1, 1}));
  }
  server.await(*waiters[1], 1);
  const auto& reduced = waiters[1]->result()->reduced.front();
  join_tasks(cpu(1), {&reduced.task, 1});
  CHECK(reduced.sparse->gradients[1].front().rows.to_vector<double>() == Values{0.5, 0.5});
}

TEST_CASE("sparse_faults: replicas must agree on what is sparse") {
  GradientSync sync(test_devices(2));
  WordModel first(true);
  sync.attach(cpu(0), first);
  WordModel second = clone(WordModel(false), cpu(1));
  for (const char* part : {"\"words.weight\"", "cpu:0", "cpu:1", "sparse", "dense"})
    CHECK_THROWS_WITH_AS(sync.attach(cpu(1), second), doctest::Contains(part), SyncError);
  CHECK_THROWS_WITH_AS(first.words.weight.set_sparse_grad(false), doctest::Contains("words.weight"), AutodiffError);
}

TEST_CASE("sparse_faults: a dense use of the table fails the step on all, naming parameter and operations") {
  GradientSync sync(test_devices(2));
  const auto replicas = sync.replicate(WordModel());
  const auto errors = errors_of_devices(2, [&](std::size_t d) {
    auto step = sync.step(cpu(d));
    step.backward(d == 0 ? replicas[d].read({1}) : sum(matmul(replicas[d].rows({1}), transpose(replicas[d].table()))));
  });
  for (const std::string& error : errors) check_names(error, {"\"words.weight\"", "embedding", "transpose", "cpu:1"});
}

TEST_CASE("sparse_faults: an engine without sparse reductions fails the step and says what to do") {
  GradientSync sync(test_devices(2), {}, std::make_unique<DenseEngine>());
  const auto replicas = sync.replicate(WordModel());
  for (const std::string& error : errors_of_devices(2, [&](std::size_t d) {
         auto step = sync.step(cpu(d));
         step.backward(replicas[d].read({1}));
       }))
    check_names(error, {"\"words.weight\"", "set_sparse_grad(false)"});
}

TEST_CASE("sparse_faults: check_finite looks at rows") {
  GradientSync sync(test_devices(2), {.check_finite = true});
  const auto replicas = sync.replicate(WordModel());
  const auto errors = errors_of_devices(2, [&](std::size_t d) {
    auto step = sync.step(cpu(d));
    const double scale = d == 1 ? std::numeric_limits<double>::infinity() : 1.0;
    step.backward(replicas[d].read({1, 2, 3}, scale));
  });
  for (const std::string& error : errors) check_names(error, {"\"words.weight\"", "cpu:1", "6 of 6 elements"});
}

TEST_CASE("sparse_faults: a failed step leaves no gradient, and the next group goes on") {
  GradientSync sync(test_devices(2), {.reduction = GradientReduction::sum});
  const auto replicas = sync.replicate(WordModel());
  const auto errors = errors_of_devices(2, [&](std::size_t d) {
    Sgd optimizer({replicas[d].table()}, 1.0);
    auto step = sync.step(cpu(d));
    if (d == 0) return step.backward(replicas[d].read({1}));
    const NoSync local = step.no_sync();
    backward(replicas[d].read({2}));
    throw std::runtime_error("burnt");
  });
  check_names(errors[0], {"cpu:1"});
  CHECK_THROWS_WITH_AS(replicas[0].table().sparse_grad(), doctest::Contains("cpu:1"), SyncError);
  run_devices(2, [&](std::size_t d) {
    sync.rejoin(cpu(d), 0);
    CHECK_FALSE(replicas[d].table().sparse_grad().defined());
    auto step = sync.step(cpu(d));
    step.backward(replicas[d].read({5}));
    CHECK(indices_of(replicas[d].table()) == Indices{5});
    CHECK(rows_of(replicas[d].table()) == Values{2, 2});
  });
}

TEST_CASE("sparse_faults: a bucket of its own, and no place among dense gradients") {
  const std::vector<SyncParameter> parameters{{"a", {3}, DType::f64},
                                              {"t", {10, 2}, DType::f64, true},
                                              {"b", {3}, DType::f64},
                                              {"u", {10, 2}, DType::f64, true}};
  const std::vector<ParameterId> order{{0}, {1}, {2}, {3}};
  const auto layout = std::make_shared<const GradientLayout>(parameters, order);
  CHECK(layout->bytes() == 2 * 64);
  SyncLedger ledger({.members = 1, .layout = layout, .bucket_bytes = 1024});
  std::vector<LedgerAction> actions;
  ledger.register_parameters({0, 1, 1}, 1.0, required_set({0, 1, 2, 3}), actions);
  for (const std::uint32_t id : {1U, 0U, 3U, 2U}) ledger.submit({0, 1, 1}, {id}, actions);
  std::vector<Ids> launched;
  for (const LedgerAction& action : actions)
    if (const auto* launch = std::get_if<Launch>(&action)) launched.push_back(ids_of(*launch));
  CHECK(launched == std::vector<Ids>{{1}, {3}, {0, 2}});
}

TEST_SUITE_END();
