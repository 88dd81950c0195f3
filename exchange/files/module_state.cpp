// SPDX-License-Identifier: Apache-2.0
#include <tutti/exchange/module_state.h>

#include <tutti/backend/raise.h>
#include <tutti/exchange/files/file_arrays.h>

#include <iterator>
#include <unordered_map>

namespace tutti {
namespace {

std::string shape_and_type(const Shape& shape, DType dtype) {
  return fmt::format("{} {}", to_string(dtype), to_string(shape));
}

bool is_convertible(DType from, DType to) {
  return from == to || (is_floating(from) && is_floating(to)) || (is_integral(from) && is_integral(to));
}

/// On the tensor's device, in its type, and in a storage that nobody else holds.
Array own_copy(const Array& value, const Tensor& tensor) {
  const Array here = value.to(tensor.device()).cast(tensor.dtype());
  return here.storage() == value.storage() ? here.copy() : here.contiguous();
}

/// Every name by which a module shows a tensor: of tied weights, too, which have one name in its state.
class AllNames : public MemberVisitor {
 public:
  explicit AllNames(Module& module) { module.visit(*this); }
  const std::vector<std::pair<std::string, const void*>>& names() const { return names_; }

  void parameter(std::string_view name, Tensor& tensor) override {
    if (tensor.defined()) names_.emplace_back(prefix_ + std::string(name), tensor.identity());
  }
  void buffer(std::string_view name, Tensor& tensor) override { parameter(name, tensor); }
  void module(std::string_view name, Module& child) override {
    const std::string outer = prefix_;
    prefix_.append(name).append(".");
    child.visit(*this);
    prefix_ = outer;
  }

 private:
  std::string prefix_;
  std::vector<std::pair<std::string, const void*>> names_;
};

/// The values by the module's names; complaints about those that cannot be anyone's go to the report.
class Assignment {
 public:
  Assignment(Module& module, const NamedTensors& tensors, const NamedArrays& values, const StateLoading& loading)
      : tensors_(tensors), assigned_(tensors.size()), seen_(tensors.size()) {
    std::unordered_map<const void*, std::size_t> identities;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      places_.emplace(tensors[i].first, i);
      identities.emplace(tensors[i].second.identity(), i);
    }
    const AllNames all(module);
    for (const auto& [name, identity] : all.names()) places_.emplace(name, identities.at(identity));
    for (const auto& [name, value] : values) assign(name, value, loading);
    for (std::size_t i = 0; i < tensors.size(); ++i)
      if (seen_[i].empty()) report_.missing.push_back(tensors[i].first);
  }

  const StateReport& report() const { return report_; }

  void load() {
    // Whatever can fail comes first.
    for (std::size_t i = 0; i < tensors_.size(); ++i)
      if (assigned_[i].defined()) assigned_[i] = own_copy(assigned_[i], tensors_[i].second);
    for (std::size_t i = 0; i < tensors_.size(); ++i)
      if (assigned_[i].defined()) Tensor(tensors_[i].second).set_array(std::move(assigned_[i]));
  }

 private:
  void assign(const std::string& given, const Array& value, const StateLoading& loading) {
    const std::string name = loading.rename ? loading.rename(given) : given;
    if (name.empty()) return;
    const auto place = places_.find(name);
    if (place == places_.end()) {
      if (is_batch_count(name, value)) return;
      report_.unexpected.push_back(name == given ? name : fmt::format("{} (from {})", name, given));
      return;
    }
    const Tensor& tensor = tensors_[place->second].second;
    std::string& seen = seen_[place->second];
    if (seen == name) {
      report_.mismatched.push_back(fmt::format("{}: given twice, the second time by {}", name, given));
      return;
    }
    if (!seen.empty()) {
      if (!is_same(assigned_[place->second], value))
        report_.mismatched.push_back(
            fmt::format("{}: another value than that of {}, which is the same tensor", name, seen));
      return;
    }
    seen = name;
    if (value.shape() == tensor.shape() && is_convertible(value.dtype(), tensor.dtype()))
      assigned_[place->second] = value;
    else
      report_.mismatched.push_back(fmt::format("{}: {} given, {} in the module", name,
                                               shape_and_type(value.shape(), value.dtype()),
                                               shape_and_type(tensor.shape(), tensor.dtype())));
  }

  static bool is_same(const Array& a, const Array& b) {
    return a.defined() && a.shape() == b.shape() && a.dtype() == b.dtype() && host_bytes(a) == host_bytes(b);
  }

  /// What torch.nn.BatchNorm counts beside its running statistics; ours needs no count.
  bool is_batch_count(const std::string& name, const Array& value) const {
    constexpr std::string_view kCount = "num_batches_tracked";
    if (!name.ends_with(kCount) || !value.shape().empty() || !is_integral(value.dtype())) return false;
    return places_.contains(name.substr(0, name.size() - kCount.size()) + "running_mean");
  }

  const NamedTensors& tensors_;
  std::vector<Array> assigned_;
  std::vector<std::string> seen_;  // the name that gave it
  std::unordered_map<std::string, std::size_t> places_;
  StateReport report_;
};

StateReport load(Module& module, const NamedArrays& values, const StateLoading& loading, std::string_view source) {
  const NamedTensors tensors = module.named_members();
  Assignment assignment(module, tensors, values, loading);
  if (loading.strict && !assignment.report().empty())
    raise<DataError>("[load_state] {} not fit the module:\n{}", source, to_string(assignment.report()));
  assignment.load();
  return assignment.report();
}

void append_list(std::string& text, std::string_view title, const std::vector<std::string>& names) {
  for (const std::string& name : names) fmt::format_to(std::back_inserter(text), "{} {}\n", title, name);
}

}  // namespace

NamedArrays module_state(Module& module) {
  NamedArrays state;
  for (const auto& [name, tensor] : module.named_members()) state.emplace_back(name, tensor.array());
  return state;
}

NamedArrays copy_module_state(Module& module) {
  NamedArrays state = module_state(module);
  for (auto& [name, value] : state) value = value.copy();
  return state;
}

std::function<std::string(const std::string&)> name_with_prefix(std::string prefix, std::string replacement) {
  return [prefix = std::move(prefix), replacement = std::move(replacement)](const std::string& name) {
    return name.starts_with(prefix) ? replacement + name.substr(prefix.size()) : name;
  };
}

std::string to_string(const StateReport& report) {
  std::string text;
  append_list(text, "missing", report.missing);
  append_list(text, "unexpected", report.unexpected);
  append_list(text, "mismatched", report.mismatched);
  return text;
}

StateReport load_state(Module& module, const NamedArrays& values, const StateLoading& loading) {
  return load(module, values, loading, "the arrays do");
}

StateReport load_state(Module& module, const std::string& path, const StateLoading& loading) {
  std::vector<std::string> skipped;
  TensorFile file = read_safetensors(path, {.skip_unknown_types = !loading.strict, .skipped = &skipped});
  StateReport report = load(module, file.arrays, loading, path + " does");
  for (std::string& name : skipped) report.unexpected.push_back(std::move(name) + " (of an unknown type)");
  return report;
}

void save_state(Module& module, const std::string& path) {
  write_safetensors(path, {module_state(module), {{"format", "pt"}}});
}

}  // namespace tutti
