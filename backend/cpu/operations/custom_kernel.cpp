// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/custom_kernel.h>

#include <tutti/backend/cpu/cpu_backend.h>
#include <tutti/backend/cpu/packs/element_runs.h>
#include <tutti/backend/raise.h>

#include <array>
#include <vector>

namespace tutti {

void CpuThreads::parallel_for(std::int64_t count, std::int64_t grain,
                              const std::function<void(std::int64_t begin, std::int64_t end)>& block) const {
  if (grain < 1) raise("[parallel_for] blocks of {} elements: it must be 1 or more", grain);
  pool_->parallel_for(count, grain, block);
}

void CpuThreads::for_each_run(const Array& output, std::span<const Array> inputs,
                              const std::function<void(const ElementRun&)>& visit) const {
  if (inputs.size() > ElementRun::kInputs)
    raise<ShapeError>("[for_each_run] {} inputs: it takes {} at most", inputs.size(), ElementRun::kInputs);
  for (const Array& input : inputs)
    if (!(input.shape() == output.shape()))
      raise<ShapeError>("[for_each_run] an input {} has not the output's shape {}: broadcast it before",
                        to_string(input.shape()), to_string(output.shape()));
  std::array<const Array*, ElementRun::kInputs> operands;
  for (std::size_t i = 0; i < inputs.size(); ++i) operands[i] = &inputs[i];
  tutti::for_each_run(*pool_, output, std::span(operands.data(), inputs.size()), visit);
}

bool CpuBackend::runs(const CustomKernel& kernel, Device) const { return bool(kernel.functions().cpu); }

void CpuBackend::custom(const CustomKernel& kernel, std::span<const Array> inputs, std::span<const Array> outputs) {
  const Device device = outputs.front().device();
  if (!kernel.functions().cpu) detail::raise_no_function(kernel, device);
  CpuStream& queue = stream(device);
  const CpuThreads pool(threads(device));
  if (queue.runs_inline())
    return queue.launch(kernel.name(), [&] { kernel.functions().cpu({inputs, outputs, kernel.parameters()}, pool); });
  queue.launch(
      kernel.name(),
      [pool](const CustomKernel& own, const std::vector<Array>& read, const std::vector<Array>& written) {
        own.functions().cpu({read, written, own.parameters()}, pool);
      },
      kernel, std::vector<Array>(inputs.begin(), inputs.end()), std::vector<Array>(outputs.begin(), outputs.end()));
}

}  // namespace tutti
