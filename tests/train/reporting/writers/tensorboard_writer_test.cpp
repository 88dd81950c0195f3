// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <tutti/backend/error.h>
#include <tutti/tests/exchange/python.h>
#include <tutti/tests/exchange/temporary_folder.h>
#include <tutti/tests/test_devices.h>
#include <tutti/train/reporting/tensorboard_writer.h>
#include <tutti/train/reporting/writers/tensorboard_format.h>

#include <cmath>
#include <string>

using namespace tutti;
using namespace tutti::testing;

namespace {

// Prints what TensorBoard's own reader finds in a folder: all scalars, then all histograms.
const char* const kReader = R"(
import logging, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
logging.getLogger("tensorboard").setLevel(logging.ERROR)
found = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "histograms": 0}).Reload()
for tag in found.Tags()["scalars"]:
    print(tag, *(f"{e.step}:{e.value:.9g}" for e in found.Scalars(tag)))
for tag in found.Tags()["histograms"]:
    for e in found.Histograms(tag):
        h = e.histogram_value
        print(tag, e.step, h.min, h.max, h.num, h.sum, h.sum_squares, h.bucket_limit, h.bucket)
print("at", 1.6e9 < found.FirstEventTimestamp() < 1e11)
)";

std::string read_by_tensorboard(const TemporaryFolder& folder) { return run_python(kReader, {folder.path().string()}); }

void step(EventStorage& storage, std::int64_t iteration, double loss) {
  storage.set_iteration(iteration);
  storage.put_scalar("loss", loss);
}

}  // namespace

TEST_CASE("tensorboard: checksums are CRC-32C, records and fields as the formats have them") {
  using namespace tensorboard;
  CHECK(crc32c("123456789") == 0xe3069283u);
  CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aau);  // RFC 3720, B.4
  CHECK(crc32c(std::string(32, '\xff')) == 0x62a8ab43u);
  CHECK(record("abc").size() == 8 + 4 + 3 + 4);
  std::string message;
  put_varint(message, 1, 150);
  put_bytes(message, 2, "testing");
  CHECK(message == "\x08\x96\x01\x12\x07testing");
}

TEST_CASE("TensorBoardWriter: TensorBoard reads what was written" * doctest::skip(!python_has("tensorboard"))) {
  const TemporaryFolder folder;
  TensorBoardWriter writer(folder.file("runs/a"));
  EventStorage storage;
  for (int i = 0; i < 300; i += 100) {
    step(storage, i, 0.1 + i);
    if (i == 100) storage.put_scalar("eval/größe", std::nan(""));
    writer.write(storage);
    writer.write(storage);
  }
  CHECK(run_python(kReader, {folder.file("runs/a")}) ==
        "loss 0:0.100000001 100:100.099998 200:200.100006\neval/größe 100:nan\nat True\n");
}

TEST_CASE("TensorBoardWriter: TensorBoard forgets what a resumed run does again" *
          doctest::skip(!python_has("tensorboard"))) {
  const TemporaryFolder folder;
  std::string checkpoint;
  {
    EventStorage storage;
    TensorBoardWriter writer(folder.path().string());
    for (int i = 0; i < 6; ++i) {
      step(storage, i, i);
      if (i == 3) checkpoint = storage.to_text();
    }
    writer.write(storage);
  }
  EventStorage storage;
  storage.load_text(checkpoint);
  TensorBoardWriter writer(folder.path().string());
  step(storage, 4, 40.0);
  writer.write(storage);
  CHECK(read_by_tensorboard(folder) == "loss 0:0 1:1 2:2 3:3 4:40\nat True\n");
  step(storage, 2, 20.0);  // and of one that goes back
  writer.write(storage);
  CHECK(read_by_tensorboard(folder) == "loss 0:0 1:1 2:20\nat True\n");
}

TEST_CASE("TensorBoardWriter: histograms" * doctest::skip(!python_has("tensorboard"))) {
  const TemporaryFolder folder;
  TensorBoardWriter writer(folder.path().string());
  const std::vector<float> values = {0, 1, 1.5, 3, 4, NAN, INFINITY, 4};
  writer.write_histogram("weights", Tensor(Array::from(values, {2, 4}, test_device()), true), 7, 4);
  writer.write_histogram("constant", Tensor(Array::full({3}, 2.0, DType::f16, test_device())), 8, 2);
  writer.write_histogram("none", Tensor(Array::full({3}, NAN, DType::f32, test_device())), 9);
  CHECK(read_by_tensorboard(folder) ==
        "weights 7 0.0 4.0 6.0 13.5 44.25 [1.0, 2.0, 3.0, 4.0] [1.0, 2.0, 0.0, 3.0]\n"
        "constant 8 2.0 2.0 3.0 6.0 12.0 [2.0, 2.0] [0.0, 3.0]\nat True\n");
}

TEST_CASE("TensorBoardWriter: names the file that it cannot write") {
  const TemporaryFolder folder;
  const std::string file = folder.file("file");
  write_file(file, "");
  CHECK_THROWS_WITH_AS(TensorBoardWriter{file}, doctest::Contains(file.c_str()), DataError);
  TensorBoardWriter writer(folder.path().string());
  writer.close();
  EventStorage storage;
  step(storage, 0, 1.0);
  CHECK_THROWS_WITH_AS(writer.write(storage), doctest::Contains(writer.path().c_str()), DataError);
}
