// SPDX-License-Identifier: Apache-2.0
// The plugin: a library of its own, which is all that is linked with MPI.
#include <tutti/distributed/engines/network/mpi/mpi_calls.h>

#include <mpi.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace tutti {

namespace {

static_assert(sizeof(MPI_Comm) <= sizeof(MpiHandle) && sizeof(MPI_Request) <= sizeof(MpiHandle));

template <class T> T read(const MpiHandle& handle) {
  T value;
  std::memcpy(&value, handle.bytes, sizeof value);
  return value;
}
template <class T> void write(MpiHandle& handle, const T& value) { std::memcpy(handle.bytes, &value, sizeof value); }

int level_of(MpiCalls::Threads threads) {
  switch (threads) {
    case MpiCalls::Threads::single: return MPI_THREAD_SINGLE;
    case MpiCalls::Threads::funneled: return MPI_THREAD_FUNNELED;
    case MpiCalls::Threads::serialized: return MPI_THREAD_SERIALIZED;
    case MpiCalls::Threads::multiple: break;
  }
  return MPI_THREAD_MULTIPLE;
}

class Calls final : public MpiCalls {
 public:
  State state() const noexcept override {
    int is = 0;
    if (MPI_Finalized(&is) == MPI_SUCCESS && is != 0) return State::finished;
    return MPI_Initialized(&is) == MPI_SUCCESS && is != 0 ? State::running : State::not_started;
  }
  Threads threads() const noexcept override {
    int level = MPI_THREAD_SINGLE;
    MPI_Query_thread(&level);
    for (const Threads each : {Threads::multiple, Threads::serialized, Threads::funneled})
      if (level >= level_of(each)) return each;
    return Threads::single;
  }
  int start(Threads threads) noexcept override {
    int provided = 0;
    return MPI_Init_thread(nullptr, nullptr, level_of(threads), &provided);
  }
  void finish() noexcept override { MPI_Finalize(); }
  int world_size() const noexcept override {
    int size = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    return size;
  }
  int world_rank() const noexcept override {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
  }
  void abort() noexcept override { MPI_Abort(MPI_COMM_WORLD, 1); }

  // MPI writes the communicator when the request is done: to where it stays.
  int begin_communicator(MpiHandle& communicator, MpiRequest& request) noexcept override {
    MPI_Request made = MPI_REQUEST_NULL;
    const int error = MPI_Comm_idup(MPI_COMM_WORLD, reinterpret_cast<MPI_Comm*>(communicator.bytes), &made);
    return begun(request, made, error);
  }
  int return_errors(MpiHandle& communicator) noexcept override {
    return MPI_Comm_set_errhandler(read<MPI_Comm>(communicator), MPI_ERRORS_RETURN);
  }

  int send(const MpiHandle& communicator, int rank, int tag, std::span<const std::byte> data,
           MpiRequest& request) noexcept override {
    MPI_Request made = MPI_REQUEST_NULL;
    const int error =
        MPI_Isend(data.data(), static_cast<int>(data.size()), MPI_BYTE, rank, tag, read<MPI_Comm>(communicator), &made);
    return begun(request, made, error);
  }
  int receive(const MpiHandle& communicator, int rank, int tag, std::span<std::byte> data,
              MpiRequest& request) noexcept override {
    MPI_Request made = MPI_REQUEST_NULL;
    const int error =
        MPI_Irecv(data.data(), static_cast<int>(data.size()), MPI_BYTE, rank, tag, read<MPI_Comm>(communicator), &made);
    return begun(request, made, error);
  }
  int test(MpiRequest& request) noexcept override {
    auto made = read<MPI_Request>(request.handle);
    int done = 0;
    const int error = MPI_Test(&made, &done, MPI_STATUS_IGNORE);
    write(request.handle, made);
    if (done != 0 || error != MPI_SUCCESS) request.active = false;
    return error;
  }
  int test_some(std::span<MpiRequest* const> requests) noexcept override try {
    made_.clear();
    for (const MpiRequest* each : requests) made_.push_back(read<MPI_Request>(each->handle));
    done_.resize(requests.size());
    statuses_.resize(requests.size());
    int count = 0;
    const int error =
        MPI_Testsome(static_cast<int>(made_.size()), made_.data(), &count, done_.data(), statuses_.data());
    for (int i = 0; i < (count == MPI_UNDEFINED ? 0 : count); ++i) {
      const auto place = static_cast<std::size_t>(done_[static_cast<std::size_t>(i)]);
      write(requests[place]->handle, made_[place]);
      requests[place]->active = false;
    }
    if (error != MPI_ERR_IN_STATUS) return error;
    for (int i = 0; i < count; ++i)
      if (const int each = statuses_[static_cast<std::size_t>(i)].MPI_ERROR; each != MPI_SUCCESS) return each;
    return MPI_SUCCESS;
  } catch (...) {
    return MPI_ERR_NO_MEM;
  }
  void cancel(MpiRequest& request) noexcept override {
    auto made = read<MPI_Request>(request.handle);
    MPI_Cancel(&made);
    write(request.handle, made);
  }
  void describe(int error, std::span<char> text) const noexcept override {
    char whole[MPI_MAX_ERROR_STRING] = {};
    int length = 0;
    if (MPI_Error_string(error, whole, &length) != MPI_SUCCESS) std::strcpy(whole, "an unknown error");
    std::strncpy(text.data(), whole, text.size() - 1);
    text.back() = '\0';
  }

 private:
  static int begun(MpiRequest& request, MPI_Request made, int error) {
    write(request.handle, made);
    request.active = error == MPI_SUCCESS;
    return error;
  }

  std::vector<MPI_Request> made_;  // these are kept for the next look
  std::vector<int> done_;
  std::vector<MPI_Status> statuses_;
};

}  // namespace

}  // namespace tutti

extern "C" [[gnu::visibility("default")]] tutti::MpiCalls* tutti_mpi_calls_1() {
  static tutti::Calls calls;
  return &calls;
}
