// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/local/local_communicator.h>

#include <tutti/backend/raise.h>
#include <tutti/distributed/collectives/compressed_reduction.h>
#include <tutti/distributed/collectives/gradient_sums.h>
#include <tutti/distributed/engines/local/chunks.h>
#include <tutti/distributed/engines/local/staged_task.h>

#include <algorithm>
#include <functional>

namespace tutti {

namespace {

// Elements [begin, begin + count) of the request or part with that index.
struct Chunk {
  std::size_t index;
  std::int64_t begin;
  std::int64_t count;
};

void add_chunks(std::vector<Chunk>& chunks, std::size_t index, std::int64_t elements, std::size_t devices) {
  const std::int64_t size = chunk_size(elements, devices);
  for (std::int64_t begin = 0; begin < elements; begin += size)
    chunks.push_back({index, begin, std::min(size, elements - begin)});
}

// One empty chunk where there is nothing to do, so that the stage ends.
WorkStage stage_of(std::vector<Chunk> chunks, std::function<void(const Chunk&)> run) {
  if (chunks.empty()) chunks.push_back({0, 0, 0});
  const auto count = static_cast<std::int64_t>(chunks.size());
  return {count, [chunks = std::move(chunks), run = std::move(run)](std::int64_t chunk) {
            run(chunks[static_cast<std::size_t>(chunk)]);
          }};
}

/// Dense gradients. What its chunks need lies in the task itself.
class AllReduceTask final : public StagedTask {
 public:
  AllReduceTask(AllReduceRequest request, std::span<const Device> devices, std::int64_t chunk_size, std::int64_t chunks)
      : StagedTask(std::move(request.ready), devices, {&chunks, 1}, Drop::after_finish),
        sums_(request),
        elements_(request.slices.front().gradient.size()),
        chunk_size_(chunk_size),
        kept_(std::move(request.slices)) {}

 private:
  void run_chunk(std::size_t, std::int64_t chunk) override {
    const std::int64_t begin = chunk * chunk_size_;
    sums_.run(begin, std::min(chunk_size_, elements_ - begin));
  }
  void drop_chunks() noexcept override { kept_.clear(); }

  ElementSums sums_;
  std::int64_t elements_;
  std::int64_t chunk_size_;
  std::vector<AllReduceSlice> kept_;  // the arrays, meanwhile
};

WorkStage stage_of(std::vector<AllReduceRequest> factors) {
  std::vector<Chunk> chunks;
  std::vector<ElementSums> sums;
  for (std::size_t i = 0; i < factors.size(); ++i) {
    check_slices(factors[i]);
    sums.emplace_back(factors[i]);
    add_chunks(chunks, i, factors[i].slices.front().gradient.size(), factors[i].slices.size());
  }
  return stage_of(std::move(chunks), [sums = std::move(sums), kept = std::move(factors)](const Chunk& chunk) {
    if (chunk.count > 0) sums[chunk.index].run(chunk.begin, chunk.count);
  });
}

}  // namespace

std::shared_ptr<CollectiveTask> LocalCommunicator::all_reduce(AllReduceRequest request) {
  check_slices(request);
  const std::vector<Device> devices = helping_devices(request);
  const std::int64_t elements = request.slices.front().gradient.size();
  const std::int64_t size = chunk_size(elements, devices.size());
  const std::int64_t chunks = chunk_count(elements, size);
  if (!enabled()) return std::make_shared<FinishedTask>();
  auto task = std::make_shared<AllReduceTask>(std::move(request), devices, size, chunks);
  crew_.open(task);
  return task;
}

// One chunk, as how many rows there will be is known only when all indices are there.
std::shared_ptr<CollectiveTask> LocalCommunicator::reduce_sparse(SparseReduction request) {
  std::vector<Device> receivers;
  for (std::size_t member = 0; member < request.receivers.size(); ++member)
    if (request.result->receives[member]) receivers.push_back(request.receivers[member]);
  if (receivers.empty()) raise<SyncError>("[reduce_sparse] no device receives \"{}\"", request.parameter.name);
  if (!enabled()) return std::make_shared<FinishedTask>();
  std::vector<Event> inputs = std::move(request.ready);
  std::vector<WorkStage> stages;
  stages.push_back({1, [request = std::move(request)](std::int64_t) { tutti::reduce_sparse(request); }});
  auto task = std::make_shared<FunctionTask>(std::move(inputs), receivers, std::move(stages));
  crew_.open(task);
  return task;
}

// Each device's encoding is a chunk, then the factors are summed like any gradients, and so on.
std::shared_ptr<CollectiveTask> LocalCommunicator::compressed_all_reduce(std::shared_ptr<CompressedReduction> reduction,
                                                                         std::vector<Event> ready,
                                                                         std::vector<Device> helping) {
  const auto members = static_cast<std::int64_t>(reduction->devices().size());
  std::vector<WorkStage> stages;
  for (std::size_t round = 0; round < reduction->rounds(); ++round) {
    stages.push_back({members, [reduction, round](std::int64_t member) {
                        reduction->encode(round, static_cast<std::size_t>(member));
                      }});
    stages.push_back(stage_of(reduction->factors(round)));
  }
  stages.push_back(
      {members, [reduction](std::int64_t member) { reduction->decode(static_cast<std::size_t>(member)); }});
  auto task = std::make_shared<FunctionTask>(std::move(ready), helping, std::move(stages));
  crew_.open(task);
  return task;
}

std::shared_ptr<CollectiveTask> LocalCommunicator::collective(CollectiveRequest request) {
  std::vector<Device> devices = request.devices;
  if (devices.empty())
    for (const Array& output : request.outputs)
      if (std::ranges::find(devices, output.device()) == devices.end()) devices.push_back(output.device());
  std::vector<Chunk> chunks;
  for (std::size_t part = 0; part < request.parts.size(); ++part)
    add_chunks(chunks, part, request.parts[part].count, devices.size());
  std::vector<Event> inputs = request.ready;
  std::vector<WorkStage> stages;
  stages.push_back(stage_of(std::move(chunks), [request = std::move(request)](const Chunk& chunk) {
    combine(request, request.parts[chunk.index], chunk.begin, chunk.count);
  }));
  auto task = std::make_shared<FunctionTask>(std::move(inputs), devices, std::move(stages));
  crew_.open(task);
  return task;
}

}  // namespace tutti
