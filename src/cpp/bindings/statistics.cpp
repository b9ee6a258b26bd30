// Statistics of tensors, and sums of exponentials.
#include "ops/statistics.h"

#include <string>

#include "bindings/ops.h"
#include "bindings/tensor.h"
#include "runtime/check.h"

namespace ea {

namespace {

using Correction = std::optional<double>;

// Returns the correction, which callers name correction or unbiased (PyTorch)
// or ddof (NumPy): np.var(tensor) passes ddof=0.
double correction_of(const char* op, const Correction& correction,
                     std::optional<bool> unbiased, const Correction& ddof) {
  EA_CHECK_AS(ConfigError, !!correction + !!unbiased + !!ddof <= 1, op,
              "correction, unbiased and ddof name the same argument; expected "
              "only one of them");
  if (unbiased) return *unbiased ? 1.0 : 0.0;
  return (correction ? correction : ddof).value_or(1.0);
}

using Spread = Var (*)(const Var&, std::optional<int>, bool, double);

template <Spread Fn>
void bind_spread(py::class_<Var>& c, const char* name, const std::string& head,
                 const std::string& example) {
  const std::string called(name);
  const std::string doc = head + R"(

The default correction is 1, as in PyTorch; np.)" +
                          called + R"((tensor) passes NumPy's
default, ddof=0.

Args:
    axis, dim: the axis, or several; negative numbers count from the last; None: all.
    correction: subtracted from the number n of elements; None: 1.
    unbiased: PyTorch's older name: True is correction=1, False correction=0.
    ddof: NumPy's name of the correction.
    keepdims, keepdim: keep the axes with size 1.
    dtype, out: None, as np.)" +
                          called + R"((tensor) hands them over.

Returns:
    Tensor in the type of x, without the axes; of all elements a 0-d one. Integers have
    results of float32.

Raises:
    ShapeError: there is no such axis, or n is not larger than the correction.
    ConfigError: an argument is given under two names, an axis stands twice, or dtype or
        out is not None.

Example:
    >>> from evolving_attention import Tensor
    >>> x = Tensor([1.0, 2.0, 3.0, 4.0, 5.0])
    >>> )" + example;
  c.def(
      name,
      [called](const Var& x, const AxesArgument& axis,
               const Correction& correction, std::optional<bool> unbiased,
               bool keepdims, const AxesArgument& dim, bool keepdim,
               const Correction& ddof, const py::object& dtype,
               const py::object& out) {
        check_unused(dtype, "dtype");
        check_unused(out, "out");
        const double less =
            correction_of(called.c_str(), correction, unbiased, ddof);
        const auto run = [less](const Var& y, std::optional<int> a, bool keep) {
          return Fn(y, a, keep, less);
        };
        return over_joined(run, x, axis, dim, keepdims || keepdim);
      },
      py::arg("axis") = py::none(), py::kw_only(),
      py::arg("correction") = py::none(), py::arg("unbiased") = py::none(),
      py::arg("keepdims") = false, py::arg("dim") = py::none(),
      py::arg("keepdim") = false, py::arg("ddof") = py::none(),
      py::arg("dtype") = py::none(), py::arg("out") = py::none(), Release(),
      doc.c_str());
}

void bind_norm(py::class_<Var>& c) {
  c.def(
      "norm",
      [](const Var& x, double p, const AxesArgument& axis, bool keepdims,
         const AxesArgument& dim, bool keepdim) {
        const auto run = [p](const Var& y, std::optional<int> a, bool keep) {
          return vector_norm(y, a, keep, p);
        };
        return over_joined(run, x, axis, dim, keepdims || keepdim);
      },
      py::arg("p") = 2.0, py::arg("axis") = py::none(),
      py::arg("keepdims") = false, py::kw_only(), py::arg("dim") = py::none(),
      py::arg("keepdim") = false, Release(),
      R"(Computes the norm of the vectors along an axis, or of all elements.

    y[...] = (sum of |x[..., i, ...]|^p over i)^(1/p), the largest |x| for p = inf

The derivative at 0 is 0. For p = inf the gradient goes to the first of equal elements.

Args:
    p: 1, 2 or inf.
    axis, dim: the axis, or several; negative numbers count from the last; None: all.
    keepdims, keepdim: keep the axes with size 1.

Returns:
    Tensor in the type of x, without the axes; of all elements a 0-d one. Integers have
    norms of float32.

Raises:
    ConfigError: p is another number, axis and dim are both given, or an axis stands
        twice.
    ShapeError: there is no such axis, or there are no elements and p is inf.

Example:
    >>> from evolving_attention import Tensor
    >>> Tensor([3.0, -4.0]).norm().item(), Tensor([3.0, -4.0]).norm(1).item()
    (5.0, 7.0))");
}

Var log_softmax_along(const Var& x, const AxisArgument& axis,
                      const AxisArgument& dim) {
  return log_softmax(x, axis_of(axis, dim).value_or(-1));
}

Var logsumexp_over(const Var& x, const AxesArgument& axis, bool keepdims,
                   const AxesArgument& dim, bool keepdim) {
  return over_joined(&logsumexp, x, axis, dim, keepdims || keepdim);
}

std::string doc_of_log_softmax(bool method) {
  return doc_of(
      method, R"(Computes log(softmax(x)), also where softmax(x) rounds to 0.

    y_i = x_i - log(sum of exp(x_j) over j))",
      "[..., n] of a floating type.",
      R"(    axis, dim: the axis; negative numbers count from the last; None: the last.
)",
      R"(    [..., n] in the type of x.

Raises:
    ShapeError: x has no such axis.
    DTypeError: x is not a floating-point tensor.
    ConfigError: axis and dim are both given.
)",
      method ? R"(    >>> Tensor([0.0, 1000.0]).log_softmax(-1).tolist()
    [-1000.0, 0.0])"
             : R"(    >>> F.log_softmax([0.0, 1000.0]).tolist()
    [-1000.0, 0.0])");
}

std::string doc_of_logsumexp(bool method) {
  return doc_of(
      method,
      R"(Computes the logarithm of a sum of exponentials without overflow.

    y[...] = log(sum of exp(x[..., i, ...]) over i))",
      "[...] of any type.",
      R"(    axis, dim: the axis, or several; negative numbers count from the last; None: all.
    keepdims, keepdim: keep the axes with size 1.
)",
      R"(    Tensor in the type of x, without the axes; of all elements a 0-d one. Integers
    have results of float32.

Raises:
    ShapeError: there is no such axis.
    ConfigError: axis and dim are both given, or an axis stands twice.
)",
      method ? R"(    >>> Tensor([1000.0, 0.0]).logsumexp(-1).item()
    1000.0)"
             : R"(    >>> F.logsumexp([1000.0, 0.0], axis=-1).item()
    1000.0)");
}

}  // namespace

void bind_log_sums(py::module_* m, py::class_<Var>* c) {
  def_both(m, c, "log_softmax", &log_softmax_along, doc_of_log_softmax,
           py::arg("axis") = py::none(), py::kw_only(),
           py::arg("dim") = py::none(), Release());
  def_both(m, c, "logsumexp", &logsumexp_over, doc_of_logsumexp,
           py::arg("axis") = py::none(), py::arg("keepdims") = false,
           py::kw_only(), py::arg("dim") = py::none(),
           py::arg("keepdim") = false, Release());
}

void bind_statistics(py::class_<Var>& c) {
  bind_spread<variance>(c, "var",
                        R"(Computes the variance over one axis, several or all.

    y[...] = sum of (x[..., i, ...] - mean)^2 over i, divided by n - correction)",
                        R"(x.var().item(), x.var(correction=0).item()
    (2.5, 2.0))");
  bind_spread<deviation>(
      c, "std",
      R"(Computes the standard deviation over one axis, several or all.

    y[...] = sqrt(sum of (x[..., i, ...] - mean)^2 over i, divided by n - correction)

The derivative at 0 is 0.)",
      R"(round(x.std().item(), 4), round(x.std(correction=0).item(), 4)
    (1.5811, 1.4142))");
  bind_norm(c);
}

}  // namespace ea
