// SPDX-License-Identifier: Apache-2.0
// What the ledger's sources include: compiled once for all mutants.
#include <algorithm>
#include <cmath>
#include <ranges>
#include <utility>

#include <tutti/distributed/ledger/sync_ledger.h>
