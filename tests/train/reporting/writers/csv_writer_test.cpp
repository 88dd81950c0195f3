// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <tutti/backend/error.h>
#include <tutti/tests/exchange/temporary_folder.h>
#include <tutti/train/reporting/csv_writer.h>

#include <cmath>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;
using Mode = LineFile::Mode;

namespace {

void step(EventStorage& storage, std::int64_t iteration, double loss) {
  storage.set_iteration(iteration);
  storage.put_scalar("loss", loss);
}

}  // namespace

TEST_CASE("CsvWriter: a row for each iteration; what is missing is empty") {
  const TemporaryFolder folder;
  const std::string path = folder.file("log.csv");
  CsvWriter writer(path);
  CHECK(read_file(path) == "iteration\n");
  EventStorage storage;
  step(storage, 0, 0.1);
  storage.put_scalar("lr", 1e-5);
  step(storage, 1, std::nan(""));
  step(storage, 2, -INFINITY);
  storage.put_scalar("lr", 2.0);
  writer.write(storage);
  writer.write(storage);
  CHECK(read_file(path) == "iteration,loss,lr\n0,0.1,1e-05\n1,nan,\n2,-inf,2\n");
}

TEST_CASE("CsvWriter: a column that comes later is in every row, and names are quoted") {
  const TemporaryFolder folder;
  const std::string path = folder.file("log.csv");
  CsvWriter writer(path);
  EventStorage storage;
  step(storage, 0, 1.0);
  writer.write(storage);
  step(storage, 1, 2.0);
  storage.put_scalar("a,b \"c\"", 3.0);
  storage.put_scalar("eval", 4.0);
  writer.write(storage);
  CHECK(read_file(path) == "iteration,loss,\"a,b \"\"c\"\"\",eval\n0,1,,\n1,2,3,4\n");
  storage.put_scalar("late", 5.0);
  writer.write(storage);
  CHECK(read_file(path) == "iteration,loss,\"a,b \"\"c\"\"\",eval,late\n0,1,,,\n1,2,3,4,\n1,,,,5\n");
}

TEST_CASE("CsvWriter: a resumed run keeps the columns and drops the rows that come again") {
  const TemporaryFolder folder;
  const std::string path = folder.file("log.csv");
  std::string checkpoint;
  {
    CsvWriter writer(path);
    EventStorage storage;
    for (int i = 0; i < 5; ++i) {
      step(storage, i, i);
      if (i == 4) storage.put_scalar("a,\"b", 1.0);
      if (i == 2) checkpoint = storage.to_text();
      writer.write(storage);
    }
  }
  write_file(path, read_file(path) + "5,0.");
  EventStorage storage;
  storage.load_text(checkpoint);
  CsvWriter writer(path, Mode::append);
  storage.set_iteration(3);
  storage.put_scalar("lr", 9.0);
  step(storage, 3, 8.0);
  writer.write(storage);
  CHECK(read_file(path) == "iteration,loss,\"a,\"\"b\",lr\n0,0,,\n1,1,,\n2,2,,\n3,8,,9\n");
  step(storage, 1, 7.0);
  writer.write(storage);
  CHECK(read_file(path) == "iteration,loss,\"a,\"\"b\",lr\n0,0,,\n1,7,,\n");
}

TEST_CASE("CsvWriter: after a load values stay with their names, whatever order the loaded storage has them in") {
  const TemporaryFolder folder;
  EventStorage other;
  other.put_scalars({{"lr", 0.25}, {"loss", 4}});
  EventStorage storage;
  storage.put_scalars({{"loss", 3}, {"lr", 0.5}});
  CsvWriter writer(folder.file("log"));
  writer.write(storage);
  storage.load_text(other.to_text());
  storage.set_iteration(1);
  storage.put_scalars({{"loss", 2}, {"lr", 0.125}});
  writer.write(storage);
  CHECK(read_file(folder.file("log")) == "iteration,loss,lr\n0,3,0.5\n1,2,0.125\n");
}

TEST_CASE("CsvWriter: appends to nothing, and to no other file") {
  const TemporaryFolder folder;
  EventStorage storage;
  step(storage, 3, 1.0);
  for (const char* found : {"", "iterat"}) {
    const std::string path = folder.file("log.csv");
    write_file(path, found);
    CsvWriter(path, Mode::append).write(storage);
    CHECK(read_file(path) == "iteration,loss\n3,1\n");
  }
  const std::string other = folder.file("other.csv");
  write_file(other, "name,value\nx,1\n");
  CHECK_THROWS_WITH_AS(CsvWriter(other, Mode::append), doctest::Contains("other.csv begins with the column 'name'"),
                       DataError);
  CHECK(read_file(other) == "name,value\nx,1\n");
  CHECK_THROWS_WITH_AS(CsvWriter("/dev/null"), doctest::Contains("/dev/null is no regular file"), DataError);
}

TEST_SUITE_END();
