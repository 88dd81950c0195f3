// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/train/data/data_stream.h>
#include <tutti/train/replicas/joined_texts.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace tutti {

/// The position of each of so many streams: those of the text, or, if these are all the same, that one for each. Throws
/// DataError for another text, and for positions that differ and are of another number of streams.
std::vector<std::string> split_positions(const std::string& text, std::size_t streams);

/// Positions of the streams of several devices, as one text.
template <class T> std::string save_positions(const std::vector<std::unique_ptr<DataStream<T>>>& streams) {
  std::vector<std::string> positions;
  for (const auto& stream : streams) positions.push_back(stream->position());
  return join_texts(positions);
}

/// All streams go there, or none.
template <class T>
void load_positions(const std::vector<std::unique_ptr<DataStream<T>>>& streams, const std::string& text) {
  const std::vector<std::string> positions = split_positions(text, streams.size());
  std::vector<std::string> before;
  try {
    for (const auto& stream : streams) {
      before.push_back(stream->position());
      stream->seek(positions[before.size() - 1]);
    }
  } catch (...) {
    for (std::size_t i = 0; i < before.size(); ++i) streams[i]->seek(before[i]);
    throw;
  }
}

}  // namespace tutti
