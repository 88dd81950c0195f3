// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace tutti::testing {

/// A job that has ended.
struct MpiJob {
  std::vector<std::string> lines;  ///< of all ranks, mixed
  int status = 0;                  ///< of mpirun; 124: it was killed
  double seconds = 0.0;

  /// What rank N says after "rank N: "; the last such line.
  std::string said_by(int rank) const;
};

bool has_mpirun();

/// Runs a program of this build's tests on that many ranks of this host; killed after 100 s. `variables`: of its
/// environment, beside the job's own.
MpiJob run_mpi(std::size_t ranks, const std::string& program, const std::vector<std::string>& arguments,
               const std::map<std::string, std::string>& variables = {});

}  // namespace tutti::testing
