// A tree of named parameters and buffers.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "autograd/var.h"
#include "nn/init.h"

namespace ea {

// Base of everything with parameters. Children are members of their parent and
// are registered by address, so modules are neither copied nor moved.
// Constructors only declare shapes; allocate() takes the memory, so that a
// model's size is known before allocation.
class Module {
 public:
  struct Parameter {
    std::string name;
    Var var;
    Init init;
    bool addition = false;  // see mark_addition()
  };

  // State that is saved and loaded with the parameters. Training changes it,
  // the optimizer does not: for example the running statistics of a batch norm.
  struct Buffer {
    std::string name;
    Var var;
    Init init;
  };

  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // All parameters under this module, depth first, with dotted names.
  std::vector<Parameter> parameters(const std::string& prefix = "") const;
  std::vector<Buffer> buffers(const std::string& prefix = "") const;
  // Allocates the parameters (zeros) and buffers (their initial values) that
  // have no memory yet, and sets the stream name of every module.
  void allocate(const std::string& prefix = "");
  // Draws the initial values of the named parameters, each from the stream of
  // its name. Advances the generator by one step, whatever the names.
  void initialize(const std::set<std::string>& names);
  // Marks the parameters under this module as added by a variant, so that a
  // checkpoint of the plain model may lack them.
  void mark_addition();
  // Moves all parameters, their gradients and the buffers; if one move throws,
  // none is moved.
  void to(Device device);
  void train(bool training);
  bool training() const { return training_; }
  // Sets whether the layers of a stack recompute their activations in backward
  // instead of keeping them; see autograd/recompute.h.
  void set_recompute(bool recompute);
  bool recomputes() const { return recompute_; }

 protected:
  // The random stream of this module, set by allocate() of the root.
  StreamSite site() const { return site_; }
  // Declares a parameter; its values are set by initialize() or loading.
  Var add_parameter(const std::string& name, const Shape& shape, DType dtype,
                    const Init& init);
  // Declares a buffer; allocate() sets its values, which are not random.
  Var add_buffer(const std::string& name, const Shape& shape, DType dtype,
                 const Init& init);
  // An empty name makes the child's names appear as the parent's own.
  void add_child(const std::string& name, Module& child);

 private:
  std::vector<Parameter> own_;
  std::vector<Buffer> own_buffers_;
  std::vector<std::pair<std::string, Module*>> children_;
  StreamSite site_ = 0;
  bool training_ = true;
  bool recompute_ = false;
};

}  // namespace ea
