// SPDX-License-Identifier: Apache-2.0
// mpirun -n 2 mpi_all_reduce NAME WRITTEN CALLS: all-reduce between two processes by MPI; NAME says which settings
// mpirun was given. A sample is the mean of CALLS calls.
#include <tutti/benches/peers/all_reduce_rounds.h>
#include <tutti/benches/thread_pair.h>

#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

using namespace tutti::bench;

int main(int argc, char** argv) {
  alarm(300);  // no rank outlives mpirun for long, whatever becomes of it
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks != 2 || argc != 4) {
    std::fputs("usage: mpirun -n 2 mpi_all_reduce NAME 0|1 CALLS\n", stderr);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  try {
    const OneCore core(static_cast<std::size_t>(rank));
    AllReduceRounds rounds(rank, argv[2] == std::string("1"), std::atoi(argv[3]), argv[1],
                           [] { MPI_Barrier(MPI_COMM_WORLD); });
    rounds.run([](float* data, std::size_t count) -> AllReduceRounds::Reduce {
      return [=] { MPI_Allreduce(MPI_IN_PLACE, data, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); };
    });
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
