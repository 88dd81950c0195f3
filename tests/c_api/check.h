// SPDX-License-Identifier: Apache-2.0
#pragma once

// Checks of a test in C: how many failed is the function's result.

#include <tutti/c_api.h>

#include <stdio.h>
#include <string.h>

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      printf("%s:%d: %s\n  last error: %s\n", __FILE__, __LINE__, #condition, tutti_last_error()); \
      ++failed;                                                                                    \
    }                                                                                              \
  } while (0)

#define CHECK_OK(call) CHECK((call) == TUTTI_OK)
/// A call that fails with this status, and an error that holds this text.
#define CHECK_FAILS(status, text, call) CHECK((call) == (status) && strstr(tutti_last_error(), text) != NULL)
