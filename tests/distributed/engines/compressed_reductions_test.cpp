// SPDX-License-Identifier: Apache-2.0
// Compressed reductions between ranks that are threads, on both engines between processes.
#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/distributed/collectives/compressed_reduction.h>
#include <tutti/distributed/engines/local/local_communicator.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/distributed/engines/network/network_group.h>
#include <tutti/tests/sanitizers.h>

#include <doctest/doctest.h>

#include <fmt/format.h>

#include <atomic>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

/// Three rounds with two sums, none, and one in 16 bits; what each adds depends on the member and on the sums before.
class Mixing : public CompressedReduction {
 public:
  /// The members [first, first + count) of a group; theirs are the first devices of their process.
  Mixing(int seed, std::size_t first, std::size_t count) : first_(first) {
    for (std::size_t i = 0; i < count; ++i) {
      devices_.push_back(cpu(static_cast<std::uint16_t>(i)));
      const auto value = static_cast<double>(seed) + 0.37 * static_cast<double>(first + i);
      long_.push_back(Array::full({3000 + 7 * seed}, value, DType::f32, devices_.back()));
      short_.push_back(Array::full({5}, value / 3, DType::f32, devices_.back()));
    }
  }
  const std::vector<Device>& devices() const override { return devices_; }
  std::size_t rounds() const override { return 3; }
  void encode(std::size_t round, std::size_t member) override {
    if (fails_in == round) throw std::runtime_error("cannot encode");
    const float more = 0.1F * static_cast<float>(first_ + member) + short_[member].data<float>()[round];
    for (std::int64_t i = 0; i < long_[member].size(); ++i) long_[member].data<float>()[i] += more;
    short_[member].data<float>()[1] -= long_[member].data<float>()[17];
  }
  std::vector<AllReduceRequest> factors(std::size_t round) override {
    if (round == 1) return {};
    std::vector<AllReduceRequest> requests(round == 0 ? 2 : 1);
    for (std::size_t r = 0; r < requests.size(); ++r) {
      for (std::size_t i = 0; i < devices_.size(); ++i) {
        requests[r].slices.push_back({(r == 0 ? long_ : short_)[i], true});
        requests[r].numbers.push_back(first_ + i);
      }
      requests[r].denominator = 3.0;
      if (round == 2) requests[r].wire = GradientWire::bf16;
    }
    if (misses_slices && round == 2) requests[0].slices.pop_back();
    return requests;
  }
  void decode(std::size_t member) override {
    for (std::int64_t i = 0; i < long_[member].size(); ++i)
      long_[member].data<float>()[i] += short_[member].data<float>()[i % 5];
  }
  std::vector<std::byte> result(std::size_t member) const { return bytes_of(long_[member]); }
  std::vector<Event> ready() const {
    std::vector<Event> events;
    for (const Device device : devices_) events.push_back(compute_stream(device).record());
    return events;
  }

  std::size_t fails_in = 99;  // none
  bool misses_slices = false;

 private:
  std::size_t first_;
  std::vector<Device> devices_;
  std::vector<Array> long_;
  std::vector<Array> short_;
};

/// Results of each member of a group in one process.
std::vector<std::vector<std::byte>> expected_of(int seed, std::size_t world) {
  LocalCommunicator communicator;
  const auto mixing = std::make_shared<Mixing>(seed, 0, world);
  communicator.compressed_all_reduce(mixing, mixing->ready(), mixing->devices())->join(cpu(0));
  std::vector<std::vector<std::byte>> results;
  for (std::size_t member = 0; member < world; ++member) results.push_back(mixing->result(member));
  return results;
}

using Work = std::function<void(std::size_t rank, Communicator&)>;

/// What each rank threw, of a group that shares memory, or one that is connected.
std::vector<std::string> run(bool connects, std::size_t ranks, std::size_t devices, const Work& work) {
  if (!connects) return run_ranks(ranks, devices, small_pieces(), Mapping::common, work);
  NetworkGroup group(std::vector<std::size_t>(ranks, devices));
  return group.run(work);
}

}  // namespace

TEST_CASE("compressed_reductions: many at once, between others, have the bits of one process") {
  const int count = kIsSanitized ? 6 : 20;
  for (const bool connects : {false, true})
    for (const auto& [ranks, devices] : std::vector<std::pair<std::size_t, std::size_t>>{{2, 2}, {4, 1}, {1, 3}}) {
      CAPTURE(connects);
      CAPTURE(ranks);
      throw_first(
          run(connects, ranks, devices, [&, ranks = ranks, devices = devices](std::size_t rank, Communicator& engine) {
            std::vector<std::shared_ptr<Mixing>> mixings;
            std::vector<std::shared_ptr<CollectiveTask>> tasks;
            std::vector<Array> sums;
            for (int i = 0; i < count; ++i) {
              mixings.push_back(std::make_shared<Mixing>(i, rank * devices, devices));
              std::vector<Device> helping = mixings.back()->devices();
              if (i % 3 == 1) helping.resize(1);
              if (i % 3 == 2) helping.clear();
              tasks.push_back(engine.compressed_all_reduce(mixings.back(), mixings.back()->ready(), helping));
              AllReduceRequest between;
              for (const Device device : mixings.back()->devices()) {
                sums.push_back(Array::full({100}, 1.0, DType::f32, device));
                between.slices.push_back({sums.back(), true});
                between.ready.push_back(compute_stream(device).record());
              }
              tasks.push_back(engine.all_reduce(std::move(between)));
              if (i % 5 == static_cast<int>(rank)) engine.crew().help_all(cpu(0));
            }
            run_devices(devices, [&](std::size_t d) {
              const Device device = cpu(static_cast<std::uint16_t>(d));
              if (rank % 2 == 1) tasks[tasks.size() - 2]->join(device);  // the last one first
              join_tasks(device, tasks);
            });
            for (int i = 0; i < count; ++i) {
              const auto expected = expected_of(i, ranks * devices);
              for (std::size_t d = 0; d < devices; ++d)
                if (mixings[static_cast<std::size_t>(i)]->result(d) != expected[rank * devices + d])
                  throw std::runtime_error(fmt::format("rank {}: reduction {} has other bits on cpu:{}", rank, i, d));
            }
            for (const Array& sum : sums)
              if (sum.to_vector<float>() != std::vector<float>(100, static_cast<float>(ranks * devices)))
                throw std::runtime_error("another sum");
          }));
    }
}

TEST_CASE("compressed_reductions: nobody need wait for one: it tells when it is finished") {
  for (const bool connects : {false, true})
    throw_first(run(connects, 2, 2, [](std::size_t rank, Communicator& engine) {
      std::atomic<bool> told{false};
      const auto mixing = std::make_shared<Mixing>(3, rank * 2, 2);
      const auto task = engine.compressed_all_reduce(mixing, mixing->ready(), {});
      task->then([&] { told = true; });
      while (!told) engine.crew().help_all(cpu(0));
      if (!task->finished() || task->error()) throw std::runtime_error("told too early");
      if (mixing->result(1) != expected_of(3, 4)[rank * 2 + 1]) throw std::runtime_error("other bits");
    }));
}

TEST_CASE("compressed_reductions: one that cannot encode is named by all, and ends the group") {
  for (const bool connects : {false, true})
    for (const std::size_t round : {0, 1, 2}) {
      const auto errors = run(connects, 3, 1, [&](std::size_t rank, Communicator& engine) {
        const auto mixing = std::make_shared<Mixing>(1, rank, 1);
        if (rank == 1) mixing->fails_in = round;
        const auto task = engine.compressed_all_reduce(mixing, mixing->ready(), mixing->devices());
        task->wait();
        if (task->error()) std::rethrow_exception(task->error());
      });
      CAPTURE(connects);
      CAPTURE(round);
      CHECK(errors[1] == "cannot encode");
      for (const std::size_t rank : {0, 2}) {
        CAPTURE(errors[rank]);
        CHECK(errors[rank].find("rank 1: cannot encode") != std::string::npos);
      }
    }
}

TEST_CASE("compressed_reductions: requests that differ are an error that names the ranks and both values") {
  for (const bool connects : {false, true}) {
    const auto errors = run(connects, 2, 1, [](std::size_t rank, Communicator& engine) {
      const auto mixing = std::make_shared<Mixing>(rank == 0 ? 0 : 1, rank, 1);
      engine.compressed_all_reduce(mixing, mixing->ready(), mixing->devices())->join(cpu(0));
    });
    for (const std::string& error : errors) {
      CAPTURE(error);
      CHECK(error.find("rank 0 has 3000 elements, rank 1 has 3007 elements") != std::string::npos);
    }
  }
}

TEST_CASE("compressed_reductions: one that is refused leaves nothing behind") {
  for (const bool connects : {false, true})
    throw_first(run(connects, 2, 1, [](std::size_t rank, Communicator& engine) {
      auto mixing = std::make_shared<Mixing>(4, rank, 1);
      mixing->misses_slices = true;
      try {
        engine.compressed_all_reduce(mixing, mixing->ready(), {});
        throw std::runtime_error("was not refused");
      } catch (const SyncError&) {
      }
      mixing = std::make_shared<Mixing>(5, rank, 1);
      engine.compressed_all_reduce(mixing, mixing->ready(), mixing->devices())->join(cpu(0));
      if (mixing->result(0) != expected_of(5, 2)[rank]) throw std::runtime_error("other bits");
    }));
}

TEST_SUITE_END();
