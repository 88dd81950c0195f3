// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/tensor.h>
#include <tutti/train/reporting/writers/event_rows.h>
#include <tutti/train/reporting/writers/event_storage.h>

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

namespace tutti {

/// An event file of TensorBoard's (events.out.tfevents...) in a folder, which is made if it is not there: every value
/// put since the last `write`, as it was put, rounded to f32, as its scalars are. Each writer makes a file of its own.
/// When a run is resumed into a folder, or goes back, it says so by TensorFlow's session log, and TensorBoard forgets
/// the iterations that come again. Values from before the resumed iteration are not written again. All is with the
/// operating system when a call returns. Throws DataError naming the path.
///
/// The format is TensorFlow's: TFRecord framing (tensorflow/core/lib/io/record_writer.h) of `Event` messages
/// (tensorflow/core/util/event.proto, framework/summary.proto).
class TensorBoardWriter : public EventWriter {
 public:
  explicit TensorBoardWriter(const std::string& folder);

  void write(const EventStorage&) override;
  void close() override { file_.reset(); }

  /// How the elements of a floating tensor are spread, in `bins` of equal width from the least to the largest finite
  /// one; NaN and infinities are left out. Waits for the device.
  void write_histogram(std::string_view name, const Tensor& values, std::int64_t iteration, std::size_t bins = 30);

  const std::string& path() const noexcept { return path_; }

 private:
  void write_event(std::int64_t iteration, int field, std::string_view content);
  void flush();

  struct CloseFile {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };

  std::string path_;
  std::unique_ptr<std::FILE, CloseFile> file_;
  EventRows rows_;
};

}  // namespace tutti
