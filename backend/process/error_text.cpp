// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/process/error_text.h>

namespace tutti {

std::string text_of(const std::exception_ptr& error) {
  if (!error) return "";
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& exception) {
    return exception.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

}  // namespace tutti
