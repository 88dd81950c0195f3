// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/modules/module_call.h>

#include <tutti/nn/module_tree.h>

#include <ranges>
#include <string>

namespace tutti {

constinit thread_local const ModuleCall* ModuleCall::innermost_ = nullptr;

namespace {

/// Finds the dotted name of a module below another.
class PathFinder : public MemberVisitor {
 public:
  // `visit` shows members, which are left as they are.
  PathFinder(const Module& root, const Module& sought) : sought_(sought) { const_cast<Module&>(root).visit(*this); }

  void parameter(std::string_view, Tensor&) override {}
  void buffer(std::string_view, Tensor&) override {}
  void module(std::string_view name, Module& child) override {
    if (!found_.empty()) return;
    const std::string outer = path_;
    path_.append(path_.empty() ? "" : ".").append(name);
    if (&child == &sought_)
      found_ = path_;
    else
      child.visit(*this);
    path_ = outer;
  }

  const std::string& found() const { return found_; }

 private:
  const Module& sought_;
  std::string path_;
  std::string found_;
};

/// Empty if it is not there, or if what is there cannot be told.
std::string name_below(const Module& outer, const Module& module) {
  try {
    return PathFinder(outer, module).found();
  } catch (...) {
    return "";
  }
}

}  // namespace

// "TransformerBlock.self_attn.out_proj: Linear"; what is called from outside of its caller begins anew.
std::string ModuleCall::describe() {
  std::vector<const Module*> modules;
  const ModuleCall* const calls = std::exchange(innermost_, nullptr);  // errors of a member's `visit` tell no modules
  for (const ModuleCall* call = calls; call != nullptr; call = call->outer_)
    if (modules.empty() || modules.back() != &call->module_) modules.push_back(&call->module_);
  std::string text;
  const Module* outer = nullptr;
  bool below = false;  // the text ends with a name, not with a class
  for (const Module* module : modules | std::views::reverse) {
    const std::string name = outer != nullptr ? name_below(*outer, *module) : "";
    below = !name.empty();
    if (below)
      text.append(".").append(name);
    else
      text.append(text.empty() ? "" : " > ").append(class_name(*module));
    outer = module;
  }
  innermost_ = calls;
  return below ? text + ": " + class_name(*outer) : text;
}

}  // namespace tutti
