// SPDX-License-Identifier: Apache-2.0
// The same for the test executables of what has tensors.
#include <tutti/tests/pch/backend.h>

#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/operations.h>
