// SPDX-License-Identifier: Apache-2.0
// Compiled once for the C++ of all documents.
#include <tutti/tests/documents/frame.h>
