// SPDX-License-Identifier: Apache-2.0
#include <tutti/command/launch/output/line_prefixer.h>

#include <algorithm>

namespace tutti::launch {

void LinePrefixer::append_line(std::string_view rest, std::string& lines) {
  lines.append(prefix_).append(begun_).append(rest).push_back('\n');
  begun_.clear();
}

void LinePrefixer::take(std::string_view bytes, std::string& lines) {
  while (!bytes.empty()) {
    const std::size_t room = longest_ - begun_.size();
    const std::size_t length = std::min(bytes.find('\n'), bytes.size());
    if (length >= room) {
      append_line(bytes.substr(0, room), lines);
      bytes.remove_prefix(room);
      cut_ = true;
    } else if (length == bytes.size()) {
      begun_.append(bytes);
      return;
    } else {
      if (!(cut_ && begun_.empty() && length == 0)) append_line(bytes.substr(0, length), lines);
      bytes.remove_prefix(length + 1);
      cut_ = false;
    }
  }
}

void LinePrefixer::end(std::string& lines) {
  if (!begun_.empty()) append_line({}, lines);
  cut_ = false;
}

}  // namespace tutti::launch
