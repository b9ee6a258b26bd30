// Elementwise functions, in ops and as methods of Tensor.
#include <string>

#include "bindings/ops.h"
#include "bindings/tensor.h"
#include "ops/activation.h"

namespace ea {

namespace {

struct Pointwise {
  const char* name;
  Activation kind;
  bool method;                 // also of Tensor
  const char* what;            // summary and formula
  const char *given, *result;  // an example; a single number is rounded
  const char* source = "";
};

constexpr Pointwise kPointwise[] = {
    {"gelu", Activation::gelu, false, R"(Applies the Gaussian error linear unit.

    y = x Phi(x), Phi(x) = (1 + erf(x / sqrt(2))) / 2)",
     "[1.0]", "0.8413", "Hendrycks and Gimpel, 2016."},
    {"gelu_tanh", Activation::gelu_tanh, false,
     R"(Applies GELU in its approximation by tanh.

    y = 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))))",
     "[1.0]", "0.8412", "Hendrycks and Gimpel, 2016, Section 2."},
    {"relu", Activation::relu, true, R"(Sets negative elements to zero.

    y = max(x, 0))",
     "[-1.0, 2.0]", "[0.0, 2.0]"},
    {"elu", Activation::elu, false, R"(Applies the exponential linear unit.

    y = x where x > 0, else exp(x) - 1)",
     "[-1.0]", "-0.6321", "Clevert et al., ICLR 2016."},
    {"tanh", Activation::tanh, true, R"(Computes the hyperbolic tangent.

    y = tanh(x))",
     "[1.0]", "0.7616"},
    {"sigmoid", Activation::sigmoid, true, R"(Computes the logistic function.

    y = 1 / (1 + exp(-x)))",
     "[0.0]", "[0.5]"},
    {"exp", Activation::exp, true, R"(Computes the exponential.

    y = exp(x))",
     "[0.0]", "[1.0]"},
    {"log", Activation::log, true, R"(Computes the natural logarithm.

    y = log(x)

0 gives -inf, a negative number NaN.)",
     "[1.0]", "[0.0]"},
    {"sqrt", Activation::sqrt, true, R"(Computes the square root.

    y = sqrt(x)

A negative number gives NaN.)",
     "[4.0, 9.0]", "[2.0, 3.0]"},
};

std::string text_of(const Pointwise& f, bool method) {
  const std::string given(f.given), name(f.name), result(f.result);
  const std::string call = method ? "Tensor(" + given + ")." + name + "()"
                                  : "F." + name + "(" + given + ")";
  const bool list = result.front() == '[';
  std::string example =
      list ? call + ".tolist()" : "round(" + call + ".item(), 4)";
  example = "    >>> " + example + "\n    " + result;
  if (*f.source != 0) example += "\n\nSource: " + std::string(f.source);
  return doc_of(method, f.what, "[...] of a floating type.", "",
                R"(    [...] in the shape and type of x.

Raises:
    DTypeError: x is not a floating-point tensor.
)",
                example);
}

}  // namespace

void bind_pointwise_ops(py::module_& ops) {
  for (const Pointwise& f : kPointwise) {
    ops.def(
        f.name, [kind = f.kind](const Var& x) { return activation(x, kind); },
        py::arg("x"), Release(), text_of(f, false).c_str());
  }
}

void bind_pointwise_methods(py::class_<Var>& c) {
  for (const Pointwise& f : kPointwise) {
    if (!f.method) continue;
    c.def(
        f.name, [kind = f.kind](const Var& x) { return activation(x, kind); },
        Release(), text_of(f, true).c_str());
  }
}

}  // namespace ea
