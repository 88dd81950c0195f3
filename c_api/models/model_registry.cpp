// SPDX-License-Identifier: Apache-2.0
#include <tutti/c_api/model_registry.h>

#include <tutti/backend/raise.h>
#include <tutti/c_api/calls/guard.h>
#include <tutti/c_api/models/multilayer_perceptron.h>
#include <tutti/onnx/onnx_model.h>

#include <map>
#include <mutex>

namespace tutti {
namespace {

/// The model of a file, whose path the options are.
AnyModel make_onnx_model(const std::string& path, Generator&) {
  if (path.empty()) raise<DataError>("[onnx] the options have to be the path of a model");
  return OnnxModel(path, {.trainable = true});
}

struct Registry {
  std::mutex mutex;
  std::map<std::string, CModelFactory> factories{{"mlp", make_multilayer_perceptron}, {"onnx", make_onnx_model}};
};

/// Never destroyed: factories may be asked for as long as anything runs.
Registry& registry() {
  static Registry& kept = *new Registry;
  return kept;
}

std::string names_of(const std::map<std::string, CModelFactory>& factories) {
  std::string names;
  for (const auto& [kind, factory] : factories) names += (names.empty() ? "" : ", ") + kind;
  return names;
}

}  // namespace

void register_c_model(std::string kind, CModelFactory factory) {
  if (!factory) raise("[register_c_model] no factory for \"{}\"", kind);
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto [place, is_new] = all.factories.try_emplace(std::move(kind), std::move(factory));
  if (!is_new)
    raise("[register_c_model] there are models of the kind \"{}\" already; choose another name", place->first);
}

AnyModel make_c_model(const std::string& kind, const std::string& options, Generator& random) {
  Registry& all = registry();
  std::unique_lock lock(all.mutex);
  const auto found = all.factories.find(kind);
  if (found == all.factories.end())
    c_api::refuse(fmt::format("no models of the kind \"{}\"; there are {}", kind, names_of(all.factories)));
  const CModelFactory& factory = found->second;  // stays where it is
  lock.unlock();
  return factory(options, random);
}

}  // namespace tutti
