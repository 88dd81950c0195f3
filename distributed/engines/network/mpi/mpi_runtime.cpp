// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/network/mpi/mpi_runtime.h>

#include <tutti/backend/process/plugin.h>
#include <tutti/backend/process/start_thread.h>
#include <tutti/backend/raise.h>

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace tutti {

namespace {

constexpr std::chrono::milliseconds kLookAround{50};
constexpr std::chrono::seconds kEndOfFailed{10};

// What launchers of MPI set: Open MPI's, MPICH's and its relatives', and SLURM's with PMIx.
constexpr const char* kVariables[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"};

Plugin& plugin() {
  static Plugin& plugin = *new Plugin("tutti_mpi.so", Plugin::Symbols::for_all);
  return plugin;
}

MpiCalls* load_calls() {
  void* const entry = plugin().function(kMpiEntry);
  return entry == nullptr ? nullptr : reinterpret_cast<MpiEntry>(entry)();
}

}  // namespace

bool started_by_mpirun() {
  return std::ranges::any_of(kVariables, [](const char* name) { return std::getenv(name) != nullptr; });
}

std::string text_of(MpiTrouble trouble) {
  switch (trouble) {
    case MpiTrouble::none: break;
    case MpiTrouble::no_mpirun: return "mpirun did not start it";
    case MpiTrouble::no_plugin:
      return "it has no tutti_mpi.so: the library was built without MPI (-Dmpi), or lies elsewhere (TUTTI_PLUGINS)";
    case MpiTrouble::bad_plugin:
      return "its tutti_mpi.so cannot be loaded: it is of another version, or its MPI is not found (LD_DEBUG=libs "
             "tells)";
    case MpiTrouble::few_threads: return "the program has initialised MPI, for less than MPI_THREAD_MULTIPLE";
    case MpiTrouble::finished: return "the program has finalised MPI";
  }
  return "nothing";
}

ThirdParty mpi_library() {
  if (load_calls() == nullptr) return {"MPI", "", plugin().trouble()};
  // MPI's own, of which nothing here is linked: the plugin has loaded it for all. Longer than any MPI's longest text.
  using Describe = int (*)(char*, int*);
  std::array<char, 32768> text{};
  int length = 0;
  const auto describe = reinterpret_cast<Describe>(dlsym(RTLD_DEFAULT, "MPI_Get_library_version"));
  if (describe == nullptr || describe(text.data(), &length) != 0) return {"MPI", "of unknown version", ""};
  const std::string_view all(text.data());
  return {"MPI", std::string(all.substr(0, all.find_first_of(",\n"))), ""};
}

/// Ends MPI when the program ends.
struct MpiAtExit {
  ~MpiAtExit() { MpiRuntime::instance().end(); }
};

// Never destroyed: its thread may outlive a program that does not wait for others.
MpiRuntime& MpiRuntime::instance() {
  static MpiRuntime& runtime = *new MpiRuntime;
  return runtime;
}

MpiTrouble MpiRuntime::trouble() noexcept try {
  {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(looked_, true)) calls_ = load_calls();
    if (calls_ == nullptr && !started_by_mpirun()) return MpiTrouble::no_mpirun;
    if (calls_ == nullptr) return plugin().is_there() ? MpiTrouble::bad_plugin : MpiTrouble::no_plugin;
    if (started_) return MpiTrouble::none;
  }
  const std::lock_guard lock(calls_mutex_);
  switch (calls_->state()) {
    case MpiCalls::State::not_started: return started_by_mpirun() ? MpiTrouble::none : MpiTrouble::no_mpirun;
    case MpiCalls::State::finished: return MpiTrouble::finished;
    case MpiCalls::State::running: break;
  }
  return calls_->threads() == MpiCalls::Threads::multiple ? MpiTrouble::none : MpiTrouble::few_threads;
} catch (...) {
  return MpiTrouble::no_plugin;
}

void MpiRuntime::start(Clock::time_point deadline, const std::function<void()>& look_around) {
  static const MpiAtExit at_exit;
  std::unique_lock lock(mutex_);
  if (!thread_.joinable()) {
    const std::lock_guard calling(calls_mutex_);
    if (calls_->state() == MpiCalls::State::running) return;  // the program's own
    thread_ = start_thread<SyncError>("mpi", [this] { run(); });
  }
  while (!started_) {
    lock.unlock();
    if (look_around) look_around();
    lock.lock();
    if (Clock::now() > deadline) raise<SyncError>("[mpi] other processes did not come to MPI_Init_thread in time");
    changed_.wait_for(lock, kLookAround, [this] { return started_; });
  }
  const std::lock_guard calling(calls_mutex_);
  if (error_ != 0) raise<SyncError>("[mpi] MPI_Init_thread failed with error {}", error_);
  if (calls_->threads() < MpiCalls::Threads::serialized)
    raise<SyncError>("[mpi] this MPI has less than MPI_THREAD_SERIALIZED, which the engine needs");
}

void MpiRuntime::run() noexcept {
  const int error = calls_->start(MpiCalls::Threads::serialized);  // nobody else calls before this has ended
  std::unique_lock lock(mutex_);
  started_ = true;
  error_ = error;
  changed_.notify_all();
  changed_.wait(lock, [this] { return stopping_; });
  lock.unlock();
  if (error == 0) {
    const std::lock_guard calling(calls_mutex_);
    calls_->finish();
  }
  lock.lock();
  ended_ = true;
  changed_.notify_all();
}

void MpiRuntime::begin_group() noexcept {
  const std::lock_guard lock(mutex_);
  ++groups_;
  failed_ = false;
}

void MpiRuntime::end_group() noexcept {
  std::unique_lock lock(mutex_);
  if (--groups_ == 0 && ending_) finalise(lock);
}

// A group may outlive it: an object of a program's, or one that the program's end interrupts.
void MpiRuntime::end() noexcept {
  if (!made_.here()) return;
  std::unique_lock lock(mutex_);
  ending_ = true;
  if (groups_ == 0) finalise(lock);
}

// Another process that is lost ends the job, this one too: so a wait for all of them ends.
void MpiRuntime::finalise(std::unique_lock<std::mutex>& lock) noexcept {
  if (!thread_.joinable()) return;
  stopping_ = true;
  changed_.notify_all();
  changed_.wait(lock, [this] { return ended_ || failed_ || !started_; });
  changed_.wait_for(lock, kEndOfFailed, [this] { return ended_; });
  const bool has_ended = ended_;
  lock.unlock();
  has_ended ? thread_.join() : thread_.detach();
}

void MpiRuntime::keep(std::shared_ptr<const void> memory) {
  const std::lock_guard lock(mutex_);
  kept_.push_back(std::move(memory));
}

void MpiRuntime::set_failed() noexcept {
  const std::lock_guard lock(mutex_);
  failed_ = true;
  changed_.notify_all();  // it may come at the end
}

}  // namespace tutti
