// SPDX-License-Identifier: Apache-2.0
// Learners of several processes, which here are threads of one, that go on from a checkpoint which the first one's disk
// alone has.
#include <tutti/tests/train/replicas/processes_run.h>

#include <tutti/backend/error.h>
#include <tutti/tests/exchange/temporary_folder.h>
#include <tutti/train/replicas/sent_checkpoint.h>

#include <fmt/format.h>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <thread>
#include <utility>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

using Learner = ProcessesRun::Learner;
using Split = std::vector<std::uint32_t>;

void check_good(const ProcessesRun& run) {
  for (const std::string& error : run.errors) CHECK(error == "");
}

/// A disk for each process, with the checkpoints of the steps 2, 4 and 5 on the first one's.
class Disks {
 public:
  explicit Disks(const Split& split) {
    ProcessesRun run(split);
    run.run([&](std::size_t rank, Learner& learner) {
      CheckpointFolder folder(of(rank), {.every_steps = 2, .report = {}});
      CheckpointParts parts;
      learner.add_parts(parts);
      learner.save_into(folder, parts);
      learner.train({.steps = 5});
    });
    check_good(run);
    REQUIRE(names(0).size() == 3);
    REQUIRE(!std::filesystem::exists(of(1)));
  }

  std::string of(std::size_t rank) const { return folder_.file(std::to_string(rank)); }
  std::vector<std::string> names(std::size_t rank) const {
    std::vector<std::string> names;
    for (const auto& path : CheckpointFolder(of(rank)).paths())
      names.push_back(std::filesystem::path(path).filename().string());
    return names;
  }
  void damage_newest() const {
    const std::string file = of(0) + "/" + names(0).back() + "/tensors-0.safetensors";
    put_byte(file, std::filesystem::file_size(file) - 1, '\x55');
  }

 private:
  TemporaryFolder folder_;
};

/// What a process found, and did not change when that was an error.
struct Loading {
  std::optional<LoadedCheckpoint> loaded;
  std::vector<float> before, after;
};

std::vector<float> weights_of(Learner& learner) {
  std::vector<float> weights;
  for (std::size_t d = 0; d < learner.devices(); ++d)
    for (const Tensor& parameter : learner.replica(d).parameters())
      for (const float value : parameter.to_vector<float>()) weights.push_back(value);
  return weights;
}

using Load =
    std::function<std::optional<LoadedCheckpoint>(std::size_t rank, Learner&, CheckpointFolder&, CheckpointParts&)>;

std::optional<LoadedCheckpoint> load_newest(std::size_t, Learner& learner, CheckpointFolder& folder,
                                            CheckpointParts& parts) {
  return learner.load_newest(folder, parts);
}

std::vector<Loading> loadings(ProcessesRun& run, const Split& split, const Disks& disks,
                              const CheckpointFolderOptions& options, const Load& load = load_newest) {
  std::vector<Loading> all(split.size());
  run.run([&](std::size_t rank, Learner& learner) {
    CheckpointFolder folder(disks.of(rank), options);
    CheckpointParts parts;
    learner.add_parts(parts);
    all[rank].before = weights_of(learner);
    try {
      all[rank].loaded = load(rank, learner, folder, parts);
    } catch (...) {
      all[rank].after = weights_of(learner);
      throw;
    }
    all[rank].after = weights_of(learner);
  });
  return all;
}

void check_all_unchanged(const std::vector<Loading>& all) {
  for (const Loading& each : all) {
    CHECK(!each.loaded);
    CHECK(!each.before.empty());
    CHECK(each.before == each.after);
  }
}

}  // namespace

TEST_CASE("learner, resume: processes go on from the first one's disk, to the bits of the uninterrupted run") {
  ProcessesRun whole({4});
  whole.run([](std::size_t, Learner& learner) { learner.train({.steps = 11}); });
  check_good(whole);
  for (const auto& [before, after] :
       std::vector<std::pair<Split, Split>>{{{2, 2}, {2, 2}}, {{1, 3}, {1, 1, 1, 1}}, {{1, 1, 1, 1}, {3, 1}}}) {
    CAPTURE(after);
    const Disks disks(before);
    ProcessesRun run(after);
    run.run([&](std::size_t rank, Learner& learner) {
      CheckpointFolder folder(disks.of(rank));
      CheckpointParts parts;
      learner.add_parts(parts);
      const auto loaded = learner.load_newest(folder, parts);
      REQUIRE(loaded);
      CHECK(loaded->progress.step == 5);
      CHECK(loaded->path == disks.of(0) + "/" + disks.names(0).back());
      CHECK(loaded->complete);
      learner.train({.steps = 11});
    });
    check_good(run);
    CHECK(run.ends == whole.ends);
    for (std::size_t rank = 1; rank < after.size(); ++rank) CHECK(!std::filesystem::exists(disks.of(rank)));
  }
}

TEST_CASE("learner, resume: another checkpoint on another process's disk, newer or damaged, does not count") {
  const Split split{2, 2};
  const Disks disks(split);
  for (const bool is_newer : {true, false}) {
    std::filesystem::remove_all(disks.of(1));
    std::filesystem::copy(disks.of(0), disks.of(1), std::filesystem::copy_options::recursive);
    if (is_newer)
      std::filesystem::rename(disks.of(1) + "/" + disks.names(1).front(),
                              disks.of(1) + "/checkpoint-00000009-step-900");
    else
      for (const std::string& name : disks.names(1)) write_file(disks.of(1) + "/" + name + "/manifest.json", "{}");
    ProcessesRun run(split);
    const auto all = loadings(run, split, disks, {.damaged = CheckpointFolderOptions::Damaged::fail});
    check_good(run);
    for (const Loading& each : all) {
      REQUIRE(each.loaded);
      CHECK(each.loaded->progress.step == 5);
      CHECK(each.after == all[0].after);
      CHECK(each.after != each.before);
    }
  }
  // What the first one does not have is not there.
  std::filesystem::remove_all(disks.of(0));
  ProcessesRun run(split);
  check_all_unchanged(loadings(run, split, disks, {}));
  check_good(run);
}

TEST_CASE("learner, resume: all pass over what is damaged on the first one's disk, or all fail and change nothing") {
  const Split split{1, 2, 1};
  const Disks disks(split);
  disks.damage_newest();
  CheckpointFolderOptions options;
  options.report = [](const std::string&) {};
  ProcessesRun older(split);
  const auto all = loadings(older, split, disks, options);
  check_good(older);
  for (const Loading& each : all) {
    REQUIRE(each.loaded);
    CHECK(each.loaded->progress.step == 4);
    REQUIRE(each.loaded->damaged.size() == 1);
    CHECK(each.loaded->damaged == all[0].loaded->damaged);
    CHECK(each.after != each.before);
  }
  options.damaged = CheckpointFolderOptions::Damaged::fail;
  ProcessesRun failing(split);
  check_all_unchanged(loadings(failing, split, disks, options));
  for (const std::string& error : failing.errors) {
    CAPTURE(error);
    CHECK(error.find("rank 0 failed: ") != std::string::npos);
    CHECK(error.find(disks.names(0).back()) != std::string::npos);
    CHECK(error.find("the newest whole checkpoint is " + disks.of(0) + "/" + disks.names(0)[1]) != std::string::npos);
    CHECK(error.find("rank 1 failed") == std::string::npos);
  }
}

TEST_CASE("learner, resume: what does not fit one process is an error on all, and changes none") {
  for (const std::size_t other : {0U, 1U}) {
    const Split split{2, 2};
    const Disks disks(split);
    ProcessesRun run(split);
    std::string more;
    check_all_unchanged(
        loadings(run, split, disks, {},
                 [&](std::size_t rank, Learner& learner, CheckpointFolder& folder, CheckpointParts& parts) {
                   if (rank == other)
                     parts.add(
                         "more", [&] { return more; }, [&](const std::string& text) { more = text; });
                   return learner.load_newest(folder, parts);
                 }));
    for (const std::string& error : run.errors) {
      CAPTURE(error);
      CHECK(error.find(fmt::format("rank {} failed: ", other)) != std::string::npos);
      CHECK(error.find("has no part \"more\"") != std::string::npos);
      CHECK(error.find(fmt::format("rank {} failed: ", 1 - other)) == std::string::npos);
    }
  }
}

TEST_CASE("learner, resume: a process that does not come to load is named to those that wait, and nothing is changed") {
  const Split split{1, 2, 1};
  const Disks disks(split);
  for (const std::size_t absent : {0U, 2U}) {
    ProcessesRun run(split);
    run.sync_options.warn_after = std::chrono::milliseconds(200);
    run.sync_options.fail_after = std::chrono::milliseconds(1500);
    run.sync_options.warn = [](const std::string&) {};
    std::atomic<std::size_t> failed = 0;
    const Load load = [&](std::size_t rank, Learner& learner, CheckpointFolder& folder, CheckpointParts& parts) {
      if (rank == absent) {
        while (failed + 1 < split.size()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
        throw std::runtime_error("absent");
      }
      try {
        return learner.load_newest(folder, parts);
      } catch (...) {
        ++failed;
        throw;
      }
    };
    const auto all = loadings(run, split, disks, {}, load);
    check_all_unchanged(all);
    for (std::size_t rank = 0; rank < split.size(); ++rank) {
      if (rank == absent) continue;
      CAPTURE(run.errors[rank]);
      CHECK(run.errors[rank].find("for the checkpoint that rank 0 reads") != std::string::npos);
      CHECK(run.errors[rank].find(fmt::format("from rank {}", absent)) != std::string::npos);
    }
  }
}

TEST_CASE("learner, resume: one checkpoint is loaded by its path on the first one's disk, and filters are each one's") {
  const Split split{2, 2};
  const Disks disks(split);
  ProcessesRun run(split);
  const auto all = loadings(run, split, disks, {.load_filter = {.include = {"model"}}},
                            [&](std::size_t rank, Learner& learner, CheckpointFolder& folder, CheckpointParts& parts) {
                              const std::string path = disks.of(0) + "/" + disks.names(0).front();
                              return std::optional(learner.load(folder, rank == 0 ? path : "", parts));
                            });
  check_good(run);
  for (const Loading& each : all) {
    REQUIRE(each.loaded);
    CHECK(each.loaded->progress.step == 2);
    CHECK(each.after == all[0].after);
    CHECK(each.after != each.before);
  }
  ProcessesRun missing(split);
  check_all_unchanged(loadings(missing, split, disks, {},
                               [&](std::size_t, Learner& learner, CheckpointFolder& folder, CheckpointParts& parts) {
                                 return std::optional(learner.load(folder, disks.of(0) + "/none", parts));
                               }));
  for (const std::string& error : missing.errors) CHECK(error.find("rank 0 failed: ") != std::string::npos);
}

TEST_CASE("sent checkpoints: bytes arrive in pieces of any length, in whatever spans, over memory and connections") {
  for (const bool connects : {false, true})
    for (const std::size_t piece : {1U, 7U, 4096U, 100'000U}) {
      const std::size_t total = piece == 1 ? 5 : 20 * 7 + piece;
      CAPTURE(connects);
      CAPTURE(piece);
      ProcessThreads group({1, 2, 1}, connects);
      std::vector<std::byte> sent(total);
      for (std::size_t i = 0; i < total; ++i) sent[i] = static_cast<std::byte>(i * 7 + i / 251);
      const auto errors = group.run({}, [&](std::size_t rank, GradientSync& sync) {
        std::vector<std::byte> own = rank == 0 ? sent : std::vector<std::byte>(total);
        const std::span<std::byte> all(own);
        const std::size_t cut = rank + 1;  // other spans on each
        const std::vector<std::span<std::byte>> spans{{}, all.first(cut), {}, {}, all.subspan(cut), {}};
        send_from_first(sync, spans, piece);
        send_from_first(sync, {}, piece);
        if (own != sent) throw std::runtime_error("other bytes");
        for (const Device device : sync.devices()) sync.leave(device);
      });
      for (const std::string& error : errors) CHECK(error == "");
    }
}

TEST_CASE("sent checkpoints: a head has all but the arrays' bytes, of types and shapes of any kind") {
  ReadCheckpoint checkpoint{"/disk/\xff/checkpoint-1", {{7, 2, 1}, {}}, {"damaged \xff"}, true};
  NamedArrays arrays;
  for (const DType dtype : kAllDTypes)
    arrays.emplace_back(std::string(to_string(dtype)), Array::zeros({2, 3}, dtype, cpu()));
  arrays.emplace_back("none", Array::zeros({0, 4}, DType::f32, cpu()));
  arrays.emplace_back("scalar", Array::zeros({}, DType::f64, cpu()));
  checkpoint.contents.parts.emplace_back("model", PartState{arrays, "where dropout draws", {"head.*", "tail"}});
  checkpoint.contents.parts.emplace_back("text", PartState{{}, "\"{\n}\"", {}});
  const ReadCheckpoint copy = checkpoint_of_head(head_of(checkpoint));
  CHECK(copy.path == checkpoint.path);
  CHECK(copy.damaged == checkpoint.damaged);
  CHECK(copy.contents.progress == checkpoint.contents.progress);
  CHECK(!copy.own);
  REQUIRE(copy.contents.parts.size() == 2);
  for (std::size_t part = 0; part < 2; ++part) {
    const auto& [name, state] = copy.contents.parts[part];
    const auto& [name_before, before] = checkpoint.contents.parts[part];
    CHECK(name == name_before);
    CHECK(state.text == before.text);
    CHECK(state.left_out == before.left_out);
    REQUIRE(state.arrays.size() == before.arrays.size());
    for (std::size_t i = 0; i < state.arrays.size(); ++i) {
      CHECK(state.arrays[i].first == before.arrays[i].first);
      CHECK(state.arrays[i].second.dtype() == before.arrays[i].second.dtype());
      CHECK(state.arrays[i].second.shape() == before.arrays[i].second.shape());
    }
  }
  const auto lengths = [](const ReadCheckpoint& of) {
    std::vector<std::size_t> lengths;
    for (const auto& bytes : bytes_of_arrays(of)) lengths.push_back(bytes.size());
    return lengths;
  };
  CHECK(lengths(copy) == lengths(checkpoint));
}

TEST_SUITE_END();
