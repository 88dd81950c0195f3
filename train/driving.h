// SPDX-License-Identifier: Apache-2.0
#pragma once

// The former name of distributed_training.h, for programs that include it.

#include <tutti/train/distributed_training.h>
