// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/hooks/periodic_writer.h>

#include <tutti/backend/raise.h>
#include <tutti/train/trainer.h>

#include <utility>

namespace tutti {

PeriodicWriter::PeriodicWriter(std::vector<std::unique_ptr<EventWriter>> writers, std::int64_t every)
    : writers_(std::move(writers)), every_(every) {
  if (every < 1) raise<Error>("[periodic writer] every {} steps: at least 1", every);
  for (std::size_t i = 0; i < writers_.size(); ++i)
    if (writers_[i] == nullptr) raise<Error>("[periodic writer] writer {} of {} is null", i, writers_.size());
}

std::vector<std::unique_ptr<EventWriter>> PeriodicWriter::alone(std::unique_ptr<EventWriter> writer) {
  std::vector<std::unique_ptr<EventWriter>> writers;
  writers.push_back(std::move(writer));
  return writers;
}

void PeriodicWriter::before_train() { trainer().storage().begin_marking(); }

void PeriodicWriter::after_step(const StepReport& report) {
  if (report.training && report.global_step % every_ == 0) write();
}

void PeriodicWriter::write() {
  if (trainer().writes())
    for (const auto& writer : writers_) writer->write(trainer().storage());
  trainer().storage().mark_written();
}

}  // namespace tutti
