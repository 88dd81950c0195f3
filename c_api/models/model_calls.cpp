// SPDX-License-Identifier: Apache-2.0
#include <tutti/c_api.h>

#include <tutti/backend/raise.h>
#include <tutti/c_api/calls/handles.h>
#include <tutti/exchange/module_state.h>
#include <tutti/exchange/npz.h>

using namespace tutti;
using namespace tutti::c_api;

namespace {

Module& module_of(const tutti_model* model) { return required(model, "model").model.module(); }

/// A parameter or buffer; the error for another name tells those that are like it.
Array member_named(Module& module, const std::string& name) {
  try {
    return module_state(module).at(name);
  } catch (const DataError& error) {
    refuse(error.what());
  }
}

bool is_npz(const std::string& path) {
  if (path.ends_with(".npz")) return true;
  if (!path.ends_with(".safetensors")) refuse("the path \"" + path + "\" ends neither with .safetensors nor with .npz");
  return false;
}

}  // namespace

tutti_status tutti_model_create(const char* kind, const char* options, const char* device, std::uint64_t seed,
                                tutti_model** result) {
  return guarded("tutti_model_create", [&] {
    tutti_model*& made = empty_result(result);
    const std::string wanted = required_text(kind, "kind");
    const Device place = device_named(device);
    Generator random(seed);
    AnyModel model = make_c_model(wanted, options == nullptr ? "" : options, random);
    if (place != cpu(0)) model.module().detach_members_to(place);
    made = new tutti_model(std::move(model));
  });
}

void tutti_model_free(tutti_model* model) {
  if (model != nullptr && !model->is_replica) delete model;
}

tutti_status tutti_model_tensor_count(const tutti_model* model, std::size_t* count) {
  return guarded("tutti_model_tensor_count", [&] {
    const std::size_t names = required(model, "model").names.size();
    required(count, "count") = names;
  });
}

tutti_status tutti_model_tensor_name(const tutti_model* model, std::size_t index, const char** name) {
  return guarded("tutti_model_tensor_name", [&] {
    const std::vector<std::string>& names = required(model, "model").names;
    require(name, "name");
    if (index >= names.size()) refuse(fmt::format("no tensor {}; the model has {}", index, names.size()));
    *name = names[index].c_str();
  });
}

tutti_status tutti_model_get_tensor(const tutti_model* model, const char* name, tutti_tensor** result) {
  return guarded("tutti_model_get_tensor", [&] {
    tutti_tensor*& made = empty_result(result);
    Module& module = module_of(model);
    give(made, Tensor(member_named(module, required_text(name, "name")).copy()));
  });
}

tutti_status tutti_model_set_tensor(tutti_model* model, const char* name, const tutti_tensor* values) {
  return guarded("tutti_model_set_tensor", [&] {
    Module& module = module_of(model);
    const std::string wanted = required_text(name, "name");
    const NamedArrays given({{wanted, value_of(values, "values").array()}});
    const bool is_its_shape = member_named(module, wanted).shape() == given.at(wanted).shape();
    const StateReport report = load_state(module, given, {.strict = false});
    if (report.mismatched.empty()) return;
    if (is_its_shape) raise<DTypeError>("{}", report.mismatched.front());
    raise<ShapeError>("{}", report.mismatched.front());
  });
}

tutti_status tutti_model_save(const tutti_model* model, const char* path) {
  return guarded("tutti_model_save", [&] {
    Module& module = module_of(model);
    const std::string file = required_text(path, "path");
    if (is_npz(file)) return write_npz(file, module_state(module));
    save_state(module, file);
  });
}

tutti_status tutti_model_load(tutti_model* model, const char* path) {
  return guarded("tutti_model_load", [&] {
    Module& module = module_of(model);
    const std::string file = required_text(path, "path");
    if (is_npz(file))
      load_state(module, read_npz(file));
    else
      load_state(module, file);
  });
}

tutti_status tutti_model_set_training(tutti_model* model, std::int32_t training) {
  return guarded("tutti_model_set_training", [&] { module_of(model).train(training != 0); });
}

tutti_status tutti_model_forward(tutti_model* model, const tutti_tensor* input, tutti_tensor** result) {
  return guarded("tutti_model_forward", [&] {
    tutti_tensor*& made = empty_result(result);
    const AnyModel& function = required(model, "model").model;
    give(made, function.forward(value_of(input, "input")));
  });
}

tutti_status tutti_model_infer(const tutti_model* model, const tutti_tensor* input, tutti_tensor** result) {
  return guarded("tutti_model_infer", [&] {
    tutti_tensor*& made = empty_result(result);
    const AnyModel& function = required(model, "model").model;
    const Inference without_gradients;
    give(made, function.forward(value_of(input, "input")));
  });
}
