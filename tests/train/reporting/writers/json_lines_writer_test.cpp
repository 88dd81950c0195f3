// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <tutti/backend/error.h>
#include <tutti/tests/exchange/temporary_folder.h>
#include <tutti/train/reporting/csv_writer.h>
#include <tutti/train/reporting/json_lines_writer.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;
using Mode = LineFile::Mode;

namespace {

void step(EventStorage& storage, std::int64_t iteration, double loss) {
  storage.set_iteration(iteration);
  storage.put_scalar("loss", loss);
}

std::vector<std::int64_t> iterations(const std::string& path) {
  std::istringstream lines(read_file(path));
  std::vector<std::int64_t> result;
  for (std::string line; std::getline(lines, line);)
    result.push_back(nlohmann::json::parse(line)["iteration"].get<std::int64_t>());
  return result;
}

}  // namespace

TEST_CASE("JsonLinesWriter: a line for each iteration, there at once") {
  const TemporaryFolder folder;
  const std::string path = folder.file("log.jsonl");
  JsonLinesWriter writer(path);
  EventStorage storage;
  writer.write(storage);
  CHECK(read_file(path).empty());
  step(storage, 0, 0.1);
  storage.put_scalar("eval/\"a\"", std::nan(""));
  step(storage, 1, 1e300);
  writer.write(storage);
  const std::string first =
      "{\"iteration\":0,\"loss\":0.1,\"eval/\\\"a\\\"\":null}\n{\"iteration\":1,\"loss\":1e+300}\n";
  CHECK(read_file(path) == first);
  writer.write(storage);
  CHECK(read_file(path) == first);
  storage.put_scalar("late", -3.0);
  writer.write(storage);
  CHECK(read_file(path) == first + "{\"iteration\":1,\"late\":-3}\n");
}

TEST_CASE("JsonLinesWriter: a process that is killed loses nothing that was written") {
  const TemporaryFolder folder;
  const std::string path = folder.file("log.jsonl");
  const pid_t child = fork();
  if (child == 0) {
    JsonLinesWriter writer(path);
    EventStorage storage;
    for (int i = 0; i < 3; ++i) {
      step(storage, i, i);
      writer.write(storage);
    }
    kill(getpid(), SIGKILL);
  }
  REQUIRE(child > 0);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(iterations(path) == std::vector<std::int64_t>{0, 1, 2});
}

TEST_CASE("JsonLinesWriter: a resumed run goes on where its checkpoint was") {
  const TemporaryFolder folder;
  const std::string path = folder.file("log.jsonl");
  std::string checkpoint;
  {
    EventStorage storage;
    JsonLinesWriter writer(path);
    for (int i = 0; i < 10; ++i) {
      step(storage, i, i);
      if (i == 3) storage.put_scalar("eval", 1.0);
      if (i == 5) checkpoint = storage.to_text();
      writer.write(storage);
    }
  }
  write_file(path, "\n" + read_file(path) + "{\"iteration\":10,\"lo");  // killed while it wrote
  const auto resumed = [&](bool from_text) {
    EventStorage storage;
    if (from_text) storage.load_text(checkpoint);
    JsonLinesWriter writer(path, Mode::append);
    writer.write(storage);
    for (int i = 6; i < 9; ++i) {
      step(storage, i, 100 + i);
      writer.write(storage);
    }
  };
  const std::string kept = "{\"iteration\":3,\"loss\":3,\"eval\":1}";
  for (const bool from_text : {true, false}) {
    resumed(from_text);
    std::string text = read_file(path);
    CHECK(text.starts_with("\n"));  // a line that is not ours stays
    write_file(path, text.substr(1));
    CHECK(iterations(path) == std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8});
    CHECK(text.find(kept) == text.rfind(kept));
    CHECK(text.find("{\"iteration\":6,\"loss\":106}\n") != std::string::npos);
    write_file(path, "\n" + read_file(path));
  }
}

TEST_CASE("JsonLinesWriter: what a killed run had not written yet comes from its checkpoint") {
  const TemporaryFolder folder;
  const std::string path = folder.file("log.jsonl");
  EventStorage before;
  {
    JsonLinesWriter writer(path);
    for (int i = 0; i < 6; ++i) {
      step(before, i, i);
      if (i == 3) writer.write(before);
    }
  }
  EventStorage after;
  after.load_text(before.to_text());
  JsonLinesWriter writer(path, Mode::append);
  step(after, 6, 6.0);
  writer.write(after);
  CHECK(iterations(path) == std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6});
}

TEST_CASE("JsonLinesWriter: what came for an iteration after its line was written is not lost either") {
  const TemporaryFolder folder;
  std::string checkpoint;
  {
    EventStorage storage;
    JsonLinesWriter writer(folder.file("log"));
    storage.put_scalar("loss", 3);
    writer.write(storage);
    storage.mark_written();
    storage.put_scalar("evaluation/loss", 4);
    checkpoint = storage.to_text();
  }
  EventStorage storage;
  storage.load_text(checkpoint);
  JsonLinesWriter writer(folder.file("log"), LineFile::Mode::append);
  writer.write(storage);
  CHECK(read_file(folder.file("log")) == "{\"iteration\":0,\"loss\":3,\"evaluation/loss\":4}\n");
}

TEST_CASE("JsonLinesWriter: a run that goes back replaces its lines, also when it has passed them again") {
  const TemporaryFolder folder;
  const std::string path = folder.file("log.jsonl");
  JsonLinesWriter writer(path);
  EventStorage storage;
  for (int i = 0; i < 6; ++i) step(storage, i, i);
  writer.write(storage);
  step(storage, 2, 20.0);
  for (int i = 3; i < 9; ++i) step(storage, i, i);
  step(storage, 7, 70.0);
  writer.write(storage);
  CHECK(iterations(path) == std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(read_file(path).find("\"iteration\":2,\"loss\":20}") != std::string::npos);
}

TEST_CASE("JsonLinesWriter: after a load values stay with their names, whatever order the loaded storage has them in") {
  const TemporaryFolder folder;
  EventStorage other;
  other.put_scalars({{"lr", 0.25}, {"loss", 4}});
  EventStorage storage;
  storage.put_scalars({{"loss", 3}, {"lr", 0.5}});
  JsonLinesWriter writer(folder.file("log"));
  writer.write(storage);
  storage.load_text(other.to_text());
  storage.set_iteration(1);
  storage.put_scalars({{"loss", 2}, {"lr", 0.125}});
  writer.write(storage);
  CHECK(read_file(folder.file("log")) ==
        "{\"iteration\":0,\"loss\":3,\"lr\":0.5}\n{\"iteration\":1,\"lr\":0.125,\"loss\":2}\n");
}

TEST_CASE("JsonLinesWriter: a file that another one writes is refused, and stays what it is") {
  const TemporaryFolder folder;
  const std::string path = folder.file("log.jsonl");
  EventStorage storage;
  step(storage, 0, 1.0);
  {
    JsonLinesWriter first(path);
    first.write(storage);
    for (const Mode mode : {Mode::append, Mode::replace})
      CHECK_THROWS_WITH_AS((JsonLinesWriter{path, mode}), doctest::Contains("another run writes it"), DataError);
    step(storage, 1, 2.0);
    first.write(storage);
  }
  CHECK(iterations(path) == std::vector<std::int64_t>{0, 1});
  JsonLinesWriter second(path, Mode::append);
  step(storage, 2, 3.0);
  CHECK_NOTHROW(second.write(storage));
}

TEST_CASE("JsonLinesWriter: a file that is rewritten is never another one's") {
  const TemporaryFolder folder;
  const std::string path = folder.file("log.jsonl");
  LineFile first(path, Mode::replace);
  first.write("0\n");
  std::atomic<bool> ended{false};
  std::atomic<int> taken{0};
  std::thread other([&] {
    while (!ended) try {
        const LineFile second(path, Mode::append);
        ++taken;
      } catch (const DataError&) {
      }
  });
  for (int i = 0; i < 2000; ++i) first.rewrite([](std::string_view line) { return std::optional(std::string(line)); });
  ended = true;
  other.join();
  CHECK(taken == 0);
  CHECK(read_file(path) == "0\n");
}

TEST_CASE("JsonLinesWriter: a file that was moved is not rewritten in another's place") {
  const TemporaryFolder folder;
  const std::string path = folder.file("log.jsonl");
  const auto all = [](std::string_view line) { return std::optional(std::string(line)); };
  LineFile first(path, Mode::replace);
  first.write("0\n");
  std::filesystem::rename(path, folder.file("old.jsonl"));
  CHECK_THROWS_WITH_AS(first.rewrite(all), doctest::Contains("log.jsonl: it was moved or replaced"), DataError);
  LineFile second(path, Mode::replace);
  second.write("1\n");
  CHECK_THROWS_AS(first.rewrite(all), DataError);
  second.write("2\n");
  CHECK(read_file(path) == "1\n2\n");
  CHECK_THROWS_WITH_AS(first.write("3\n"), doctest::Contains("an earlier change failed; open it anew"), DataError);
}

TEST_CASE("CsvWriter: after a column that it could not add it writes no rows") {
  const TemporaryFolder folder;
  const std::string path = folder.file("log.csv");
  CsvWriter writer(path);
  EventStorage storage;
  step(storage, 0, 1.0);
  writer.write(storage);
  std::filesystem::rename(path, folder.file("old.csv"));
  storage.set_iteration(1);
  storage.put_scalar("other", 2.0);
  CHECK_THROWS_WITH_AS(writer.write(storage), doctest::Contains("moved or replaced"), DataError);
  step(storage, 2, 3.0);
  CHECK_THROWS_WITH_AS(writer.write(storage), doctest::Contains("open it anew"), DataError);
  CHECK(read_file(folder.file("old.csv")) == "iteration,loss\n0,1\n");
}

TEST_CASE("JsonLinesWriter: a rewritten file keeps its permissions, and one whose lines cannot be read its lines") {
  const TemporaryFolder folder;
  const std::string path = folder.file("log.jsonl");
  LineFile file(path, Mode::replace);
  file.write("0\n");
  std::filesystem::permissions(path, std::filesystem::perms(0640));
  CHECK_THROWS_AS(file.rewrite([](std::string_view) -> std::optional<std::string> { throw DataError("no number"); }),
                  DataError);
  CHECK(read_file(path) == "0\n");
  CHECK_FALSE(std::filesystem::exists(path + ".new"));
  file.close();
  LineFile(path, Mode::append).rewrite([](std::string_view) { return std::optional<std::string>("1"); });
  CHECK(read_file(path) == "1\n");
  CHECK(std::filesystem::status(path).permissions() == std::filesystem::perms(0640));
}

TEST_CASE("JsonLinesWriter: a link to a file that is rewritten stays one") {
  const TemporaryFolder folder;
  const std::string path = folder.file("log.jsonl");
  std::filesystem::create_symlink(path, folder.file("link"));
  LineFile file(folder.file("link"), Mode::replace);
  file.write("0\n1\n");
  file.rewrite([](std::string_view line) { return line == "0" ? std::nullopt : std::optional(std::string(line)); });
  CHECK(std::filesystem::is_symlink(folder.file("link")));
  CHECK(read_file(path) == "1\n");
}

TEST_CASE("JsonLinesWriter: what is no regular file keeps its lines, and its place") {
  const TemporaryFolder folder;
  const std::string path = folder.file("pipe");
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  const int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK);
  {
    JsonLinesWriter writer(path, Mode::append);
    EventStorage storage;
    step(storage, 4, 1.0);
    writer.write(storage);
    storage.load_text(storage.to_text());
    step(storage, 2, 2.0);
    writer.write(storage);
  }
  CHECK(std::filesystem::is_fifo(path));
  std::string text(256, '\0');
  const ssize_t count = ::read(reader, text.data(), text.size());
  ::close(reader);
  REQUIRE(count > 0);
  text.resize(static_cast<std::size_t>(count));
  CHECK(text == "{\"iteration\":4,\"loss\":1}\n{\"iteration\":2,\"loss\":2}\n");
}

TEST_CASE("JsonLinesWriter: names the path that it cannot write") {
  const TemporaryFolder folder;
  const std::string path = folder.file("missing/log.jsonl");
  CHECK_THROWS_WITH_AS(JsonLinesWriter{path}, doctest::Contains(path.c_str()), DataError);
  JsonLinesWriter writer(folder.file("log.jsonl"));
  writer.close();
  writer.close();
  EventStorage storage;
  step(storage, 0, 1.0);
  CHECK_THROWS_WITH_AS(writer.write(storage), doctest::Contains("closed"), DataError);
  if (!std::filesystem::exists("/dev/full")) return;
  JsonLinesWriter full("/dev/full");
  CHECK_THROWS_WITH_AS(full.write(storage), doctest::Contains("/dev/full"), DataError);
}

TEST_SUITE_END();
