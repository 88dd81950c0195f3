// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace tutti {

/// The place of this process in its job, as whoever launched it says in variables of the environment.
struct LaunchPlace {
  std::string launcher = "none";  ///< name of what said so, for errors and reports: "torchrun", "Open MPI", ...
  int rank = 0;                   ///< number of this process, below `size`
  int size = 1;                   ///< number of processes
  int local_rank = 0;             ///< number of this process among those of its host
  int local_size = 1;             ///< number of processes on its host; 0: not told
  /// Host where rank 0 waits for the others: a name or an address. Empty: not told, which is an error unless alone.
  std::string address;
  int port = 0;            ///< TCP port at that address that is the job's own; 0: not told
  std::string job;         ///< tells jobs apart that share hosts; empty: not told
  std::string variable{};  ///< the variable that said `size`; empty: none did

  bool alone() const noexcept { return size == 1; }
};

/// Gives a variable's value; none if it is unset.
using EnvironmentReader = std::function<std::optional<std::string>(const std::string& name)>;

/// Reads the process's place from what launchers set. The first of these that is complete wins:
///
/// 1. TUTTI_RANK, TUTTI_WORLD_SIZE, TUTTI_RENDEZVOUS ("host:port", "[address of IPv6]:port"); also TUTTI_LOCAL_RANK,
///    TUTTI_LOCAL_WORLD_SIZE, TUTTI_JOB;
/// 2. RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, as torchrun and Kubernetes' training operators set them; also
///    LOCAL_RANK, LOCAL_WORLD_SIZE;
/// 3. OMPI_COMM_WORLD_RANK and _SIZE, _LOCAL_RANK and _LOCAL_SIZE, of Open MPI's mpirun;
/// 4. PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, of MPICH's and its relatives';
/// 5. SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID, SLURM_STEP_NODELIST, SLURM_STEP_ID, of srun;
/// 6. JOB_COMPLETION_INDEX, WORLD_SIZE, MASTER_ADDR, of an Indexed Job.
///
/// Without any of them the process is alone. 3 to 6 take TUTTI_RENDEZVOUS, or MASTER_ADDR and MASTER_PORT, where these
/// are set; else Open MPI's job of one host, and SLURM's step of one node, wait at 127.0.0.1, at a port from 20000 to
/// 31999 that the job's name gives. Throws Error naming the variable: for a value that cannot be meant, of whatever
/// wins; and where a part of 1, or of 2 RANK, a WORLD_SIZE above 1 or both, says that there are others, who would wait
/// for a process that goes on alone; so does PMIX_RANK, of prun, beside none of 1 to 6 and no WORLD_SIZE.
LaunchPlace launch_place(const EnvironmentReader&);
LaunchPlace launch_place();  ///< reads this process's environment

/// The first host of a list as SLURM writes it: "node[07-11,20],login2" gives "node07". Throws Error naming the list if
/// it is none.
std::string first_host(const std::string& nodes);

}  // namespace tutti
