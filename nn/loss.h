// SPDX-License-Identifier: Apache-2.0
#pragma once

// All losses. Definitions, options and reductions are PyTorch's; operands are never broadcast in silence: shapes that
// do not fit throw ShapeError. Each can be differentiated twice, also with respect to floating targets.

#include <tutti/nn/binary_loss.h>
#include <tutti/nn/losses/classification_loss.h>
#include <tutti/nn/losses/ctc_loss.h>
#include <tutti/nn/losses/loss_reduction.h>
#include <tutti/nn/losses/regression_loss.h>
