// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/command/launch/file_descriptor.h>
#include <tutti/command/launch/output/line_prefixer.h>
#include <tutti/command/launch/output/output_sink.h>
#include <tutti/command/launch/output/rank_log.h>

#include <string>

namespace tutti::launch {

/// One output of one process on its way to one of the launcher's.
class RankOutput {
 public:
  /// `pipe`: its end that reads, without waiting. `log`: the process's, which gets the bytes too; may be null. It and
  /// the sink have to outlive this.
  RankOutput(FileDescriptor pipe, std::string prefix, OutputSink& sink, RankLog* log);

  /// False once the pipe has ended, and as long as the sink has no room: then whoever writes has to wait.
  bool may_read() const noexcept { return pipe_ && sink_->has_room(); }
  int descriptor() const noexcept { return pipe_.number(); }
  void read_some();  ///< passes on what one read gives, if anything is there
  /// Reads all that is there, room or not: what a process wrote before it ended comes before its report. Bounded, for
  /// others may go on to write to the same pipe.
  void drain();
  void close();  ///< passes on a last line without a newline; nothing is read any more

 private:
  bool read_block();

  FileDescriptor pipe_;
  LinePrefixer prefixer_;
  OutputSink* sink_;
  RankLog* log_;
};

}  // namespace tutti::launch
