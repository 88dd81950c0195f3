// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>

namespace tutti {

/// The message of an exception, for a text that tells others of it; "" for none.
std::string text_of(const std::exception_ptr&);

}  // namespace tutti
