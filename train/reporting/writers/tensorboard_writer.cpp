// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/reporting/tensorboard_writer.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/raise.h>
#include <tutti/train/reporting/writers/tensorboard_format.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

namespace tutti {
namespace {

using namespace tensorboard;

// Field numbers of TensorFlow's messages.
enum EventField { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7 };
enum SummaryField { kSummaryValue = 1 };
enum ValueField { kTag = 1, kSimpleValue = 2, kHistogram = 5 };
enum HistogramField { kMin = 1, kMax, kCount, kSum, kSumOfSquares, kBucketLimits, kBuckets };
enum SessionLogField { kStatus = 1 };
constexpr std::uint64_t kSessionStart = 1;

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// TensorBoard reads a folder's files in the order of their names: time first, then our count.
std::string file_name() {
  static std::atomic<int> files = 0;
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) std::strcpy(host.data(), "host");
  return fmt::format("events.out.tfevents.{:010}.{}.{}.{:06}", static_cast<std::int64_t>(wall_time()), host.data(),
                     getpid(), files++);
}

/// The message of what is in `values`, all finite.
std::string histogram(const std::vector<double>& values, std::size_t bins) {
  const auto [least, largest] = std::ranges::minmax(values);
  const double width = (largest - least) / static_cast<double>(bins);
  std::vector<double> limits(bins);
  std::vector<double> counts(bins, 0.0);
  for (std::size_t i = 0; i < bins; ++i) limits[i] = least + width * static_cast<double>(i + 1);
  limits.back() = largest;
  double sum = 0.0;
  double squares = 0.0;
  for (const double value : values) {
    const double place = width > 0.0 ? (value - least) / width : static_cast<double>(bins - 1);
    counts[std::min(static_cast<std::size_t>(place), bins - 1)] += 1.0;
    sum += value;
    squares += value * value;
  }
  std::string message;
  put_double(message, kMin, least);
  put_double(message, kMax, largest);
  put_double(message, kCount, static_cast<double>(values.size()));
  put_double(message, kSum, sum);
  put_double(message, kSumOfSquares, squares);
  put_doubles(message, kBucketLimits, limits);
  put_doubles(message, kBuckets, counts);
  return message;
}

}  // namespace

TensorBoardWriter::TensorBoardWriter(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  path_ = (std::filesystem::path(folder) / file_name()).string();
  errno = 0;
  file_.reset(std::fopen(path_.c_str(), "wbx"));
  if (!file_) raise<DataError>("[TensorBoardWriter] cannot open {}: {}", path_, std::strerror(errno));
  write_event(0, kFileVersion, "brain.Event:2");
  flush();
}

void TensorBoardWriter::write(const EventStorage& storage) {
  if (const auto start = rows_.restart(storage)) {
    std::string session;
    put_varint(session, kStatus, kSessionStart);
    write_event(*start, kSessionLog, session);
    rows_.assume_written(*start - 1);
  }
  auto values = rows_.take(storage);
  while (!values.empty()) {
    std::string summary;
    const std::int64_t iteration = values.front().iteration;
    for (const auto& [of, series, value] : EventRows::take_row(values)) {
      std::string scalar;
      put_bytes(scalar, kTag, storage.series()[series].name);
      put_float(scalar, kSimpleValue, static_cast<float>(value));
      put_bytes(summary, kSummaryValue, scalar);
    }
    write_event(iteration, kSummary, summary);
  }
  flush();
}

void TensorBoardWriter::write_histogram(std::string_view name, const Tensor& tensor, std::int64_t iteration,
                                        std::size_t bins) {
  if (bins == 0) raise("[write_histogram] '{}' needs at least one bin", name);
  std::vector<double> values = tensor.detach().cast(DType::f64).to_vector<double>();
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  if (values.empty()) return;
  std::string value;
  put_bytes(value, kTag, name);
  put_bytes(value, kHistogram, histogram(values, bins));
  std::string summary;
  put_bytes(summary, kSummaryValue, value);
  write_event(iteration, kSummary, summary);
  flush();
}

void TensorBoardWriter::write_event(std::int64_t iteration, int field, std::string_view content) {
  if (!file_) raise<DataError>("[TensorBoardWriter] cannot write to {}: it is closed", path_);
  std::string event;
  put_double(event, kWallTime, wall_time());
  put_varint(event, kStep, static_cast<std::uint64_t>(iteration));
  put_bytes(event, field, content);
  const std::string bytes = record(event);
  errno = 0;
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size())
    raise<DataError>("[TensorBoardWriter] cannot write to {}: {}", path_, std::strerror(errno));
}

void TensorBoardWriter::flush() {
  errno = 0;
  if (file_ && std::fflush(file_.get()) != 0)
    raise<DataError>("[TensorBoardWriter] cannot write to {}: {}", path_, std::strerror(errno));
}

}  // namespace tutti
