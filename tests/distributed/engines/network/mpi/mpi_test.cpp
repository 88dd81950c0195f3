// SPDX-License-Identifier: Apache-2.0
// Jobs that mpirun starts, with MPI's own processes: mpi_rank.cpp is their program.
#include <tutti/tests/distributed/engines/network/mpi/mpi_job.h>
#include <tutti/tests/distributed/engines/network/mpi/words_training.h>
#include <tutti/tests/distributed/processes/training_rank.h>
#include <tutti/tests/sanitizers.h>

#include <doctest/doctest.h>

#include <fmt/ranges.h>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

constexpr const char* kRank = "distributed/engines/network/mpi/mpi_rank";
constexpr const char* kTraining = "distributed/processes/training_process";

// Sanitizers would watch MPI, too.
bool skips() {
  if (has_mpirun() && !kIsSanitized) return false;
  MESSAGE("skipped: " << (kIsSanitized ? "a sanitizer watches this program" : "no mpirun here"));
  return true;
}

std::string digest_of_words() {
  GradientSync sync({cpu(0), cpu(1), cpu(2), cpu(3)});
  return std::to_string(words_digest(sync, 0, 6));
}

void check_said(const MpiJob& job, std::size_t ranks, const std::string& expected) {
  CAPTURE(fmt::format("{}", fmt::join(job.lines, "\n")));
  CHECK(job.status == 0);
  for (std::size_t rank = 0; rank < ranks; ++rank) CHECK(job.said_by(static_cast<int>(rank)) == expected);
}

}  // namespace

TEST_CASE("mpi: random reductions have the bits of one process, however devices are divided") {
  if (skips()) return;
  check_said(run_mpi(2, kRank, {"reductions", "1", "2"}), 2, "reduced");
  check_said(run_mpi(3, kRank, {"reductions", "2", "1", "3"}), 3, "reduced");
}

TEST_CASE("mpi: a group with sparse gradients and collectives trains to the bits of one process") {
  if (skips()) return;
  const std::string expected = "MPI " + digest_of_words();
  check_said(run_mpi(2, kRank, {"train"}), 2, expected);
  check_said(run_mpi(2, kRank, {"multiple"}), 2, expected);
  // Of one host: mpirun alone tells enough.
  check_said(run_mpi(2, kRank, {"train"}, {{"TUTTI_RENDEZVOUS", ""}, {"TUTTI_SECRET", ""}}), 2, expected);
}

TEST_CASE("mpi: whatever is sharded, late or compressed") {
  if (skips()) return;
  const auto digests = [](const MpiJob& job) {
    std::vector<std::string> found;
    for (const std::string& line : job.lines)
      if (line.starts_with("digest") || line.starts_with("error")) found.push_back(line);
    return found;
  };
  for (const std::string way : {"compressed", "gradients", "double_buffered"}) {
    CAPTURE(way);
    const std::string expected =
        digest_alone(40, 4, way == "double_buffered" ? Overlap::double_buffered : Overlap::immediate,
                     way == "compressed" ? trained_compression() : nullptr);
    const MpiJob job =
        run_mpi(2, kTraining, {"2", "40", "mpi", "by_rank"}, {{"TRAINED_WAY", way}, {"TRAINED_SILENCE", "20000"}});
    CAPTURE(fmt::format("{}", fmt::join(job.lines, "\n")));
    CHECK(digests(job) == std::vector<std::string>(2, expected));
  }
}

TEST_CASE("mpi: after an error the same processes train anew, over the MPI that runs") {
  if (skips()) return;
  const MpiJob job = run_mpi(2, kRank, {"again"});
  check_said(job, 2, "MPI " + digest_of_words());
  const std::string all = fmt::format("{}", fmt::join(job.lines, "\n"));
  CHECK(all.find("rank 0: first [sync] rank 1 cpu:0 failed") != std::string::npos);
  CHECK(all.find("rank 1: first this device fails") != std::string::npos);
}

TEST_CASE("mpi: what stands in its way is said by every rank") {
  if (skips()) return;
  check_said(run_mpi(2, kRank, {"some"}), 2,
             "[sync] rank 0 asks for ProcessEngine::mpi and rank 1 does not: all processes do, or none");
  check_said(run_mpi(2, kRank, {"single"}), 2,
             "[sync] ProcessEngine::mpi: rank 0 cannot use MPI: the program has initialised MPI, for less than "
             "MPI_THREAD_MULTIPLE");
  check_said(run_mpi(2, kRank, {"train"}, {{"TUTTI_PLUGINS", "/nowhere"}}), 2,
             "[sync] ProcessEngine::mpi: rank 0 cannot use MPI: it has no tutti_mpi.so: the library was built without "
             "MPI (-Dmpi), or lies elsewhere (TUTTI_PLUGINS)");
}

TEST_CASE("mpi: a process that is killed ends the job") {
  if (skips()) return;
  const MpiJob job = run_mpi(2, kRank, {"dies"});
  CAPTURE(fmt::format("{}", fmt::join(job.lines, "\n")));
  CHECK(job.said_by(1) == "kills itself over MPI");
  CHECK(job.status != 0);
  CHECK(job.status != 124);
  CHECK(job.seconds < 60.0);
}

// The job ends by itself, though MPI_Finalize waits for all.
TEST_CASE("mpi: a process that is stopped or hangs is named, and the job ends") {
  if (skips()) return;
  const std::pair<const char*, const char*> roles[] = {{"stops", "has said nothing for"},
                                                       {"hangs", "for the step of rank 1"}};
  for (const auto& [role, text] : roles) {
    CAPTURE(role);
    const MpiJob job = run_mpi(2, kRank, {role});
    CAPTURE(fmt::format("{}", fmt::join(job.lines, "\n")));
    CHECK(job.said_by(0).find("rank 1") != std::string::npos);
    CHECK(job.said_by(0).find(text) != std::string::npos);
    CHECK(job.status != 0);
    CHECK(job.status != 124);
    CHECK(job.seconds < 40.0);
  }
}

TEST_CASE("mpi: ranks need not be MPI's") {
  if (skips()) return;
  check_said(run_mpi(2, kRank, {"other way round"}), 2, "MPI " + digest_of_words());
}

TEST_SUITE_END();
