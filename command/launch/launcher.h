// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/command/launch/launch_plan.h>

namespace tutti::launch {

/// Starts the processes of a job on this host, passes on what they write and the signals that it gets, and returns its
/// exit status once all of them are gone and what they wrote has been read. Works on the calling thread alone, which
/// has to be the only one of the process. Throws LaunchError if the job cannot begin: then nothing of it runs.
int launch(const LaunchOptions&);

}  // namespace tutti::launch
