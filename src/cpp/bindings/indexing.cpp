// Reading t[...] with NumPy's indexing, with gradients.
#include <algorithm>
#include <string>

#include "bindings/arguments.h"
#include "bindings/numpy.h"
#include "bindings/tensor.h"
#include "ops/gather.h"
#include "ops/shape_ops.h"
#include "runtime/check.h"

namespace ea {

namespace {

constexpr const char* kGetItem =
    R"(Reads a part as NumPy does: integers, slices, ..., None, masks, integer arrays.

    y = x[key]

Negative integers count from the last. A mask is what a comparison gives, or an array of
booleans. The gradient reaches the elements that were read. Parts are copies.

Args:
    key: as in NumPy; a tensor of bool or uint8 is a mask.

Raises:
    IndexError: an index is out of range, or the key has too many axes.
    InputError: the key has another type.
    ShapeError: an integer indexes a 0-d tensor.

Example:
    >>> from evolving_attention import Tensor
    >>> x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> x[:, 0].tolist(), x[-1].tolist(), x[x > 1.5].tolist()
    ([1.0, 3.0], [3.0, 4.0], [2.0, 3.0, 4.0]))";

// Whether the key is a tensor of another library: PyTorch's have __index__.
bool is_foreign(const py::handle& key) {
  return !py::isinstance<Var>(key) && !py::isinstance<py::array>(key) &&
         py::hasattr(key, "__dlpack__");
}

bool is_integer(const py::handle& key) {
  if (PyLong_CheckExact(key.ptr()) != 0) return true;  // quick, and no bool
  return !py::isinstance<py::bool_>(key) && !py::isinstance<Var>(key) &&
         !py::isinstance<py::array>(key) && !is_foreign(key) &&
         PyIndex_Check(key.ptr()) != 0;
}

// Returns one row without its axis.
Var row(const Var& x, int axis, std::int64_t i) {
  const std::int64_t n = x.dim(axis);
  if (i < -n || i >= n) {
    // Python's iteration protocol ends with IndexError.
    throw py::index_error(format("[index] {} is out of range for {} {}", i, n,
                                 axis == 0 ? "rows" : "elements of the axis"));
  }
  return entry(x, axis, i < 0 ? i + n : i);
}

// Whether the key has only integers and slices of step 1 for the first axes,
// which copy ranges.
bool is_ranges(const py::tuple& key, const Shape& shape) {
  if (static_cast<int>(key.size()) > shape.rank()) return false;
  int axis = 0;
  for (const py::handle part : key) {
    if (py::isinstance<py::slice>(part)) {
      const py::object step = part.attr("step");
      if (!step.is_none() && !step.equal(py::int_(1))) return false;
    } else if (!is_integer(part)) {
      return false;
    }
    ++axis;
  }
  return true;
}

// Replaces a single ellipsis among integers and slices by the whole slices it
// means.
py::tuple spelled_out(const py::tuple& key, int rank) {
  py::list parts;
  bool found = false;
  for (const py::handle part : key) {
    if (part.ptr() != Py_Ellipsis) {
      if (!py::isinstance<py::slice>(part) && !is_integer(part)) return key;
      parts.append(part);
      continue;
    }
    if (found) return key;
    found = true;
    const int whole = rank + 1 - static_cast<int>(key.size());
    for (int i = 0; i < whole; ++i) {
      parts.append(py::slice(py::none(), py::none(), py::none()));
    }
  }
  return py::tuple(parts);
}

Var ranges(const Var& self, const py::tuple& key) {
  Var x = self;
  int axis = 0;
  for (const py::handle part : key) {
    if (!py::isinstance<py::slice>(part)) {
      const py::int_ i(py::reinterpret_borrow<py::object>(part));
      x = row(x, axis, whole_number(i, "index"));
      continue;
    }
    py::ssize_t start = 0, stop = 0, step = 0, length = 0;
    if (!part.cast<py::slice>().compute(x.dim(axis), &start, &stop, &step,
                                        &length)) {
      throw py::error_already_set();
    }
    if (length != x.dim(axis)) x = slice(x, axis, start, start + length);
    ++axis;
  }
  const bool whole = x.impl() == self.impl();  // a part is always a copy
  return whole ? copied(x) : x;
}

// A key as NumPy reads it: tensors as arrays, bool and uint8 as masks. `axes`
// is the minimum number of axes it reads.
struct Plain {
  py::tuple key;
  int axes = 0;
};

py::object as_index(const py::handle& part) {
  if (py::isinstance<Var>(part)) {
    const Tensor t = to_device(part.cast<Var>().data(), kCpu);
    EA_CHECK_AS(InputError, !is_floating(t.dtype()), "index",
                "a tensor of {} is not an index; expected integers, or a mask: "
                "x[mask > 0]",
                t.dtype());
    return to_numpy(t).attr("astype")(is_mask(t.dtype()) ? "bool" : "int64");
  }
  if (is_foreign(part)) {
    return py::module_::import("numpy").attr("asarray")(part);
  }
  if (py::isinstance<py::list>(part)) {
    const py::module_ np = py::module_::import("numpy");
    const py::object array = np.attr("asarray")(part);
    // An empty list selects nothing; NumPy reads it as floats.
    return py::len(part) == 0 ? array.attr("astype")("int64") : array;
  }
  const bool known = part.is_none() || part.ptr() == Py_Ellipsis ||
                     py::isinstance<py::slice>(part) ||
                     py::isinstance<py::bool_>(part) || is_integer(part) ||
                     py::hasattr(part, "__array__");
  EA_CHECK_AS(
      InputError, known, "index",
      "{} is not an index; expected integers, slices, ..., None, masks or "
      "arrays of integers",
      described(part));
  return py::reinterpret_borrow<py::object>(part);
}

Plain plain(const py::tuple& key, int rank) {
  Plain out{py::tuple(key.size()), 0};
  int last = 0;  // axes up to the last part that is not a whole slice
  for (std::size_t i = 0; i < key.size(); ++i) {
    const py::object part = as_index(key[i]);
    out.key[i] = part;
    if (part.is_none()) {
      last = out.axes;
      continue;
    }
    if (part.ptr() == Py_Ellipsis) {
      out.axes = last = rank;
      continue;
    }
    const bool mask =
        py::hasattr(part, "dtype") &&
        part.attr("dtype").attr("kind").cast<std::string>() == "b";
    out.axes += mask ? part.attr("ndim").cast<int>() : 1;
    last = out.axes;
  }
  out.axes = std::min(last, rank);
  return out;
}

// For all other keys, NumPy indexes the row numbers, and these rows are
// gathered.
Var rows(const Var& x, const Plain& key) {
  Shape lead;
  Shape flat{0};
  for (int axis = 0; axis < x.rank(); ++axis) {
    (axis < key.axes ? lead : flat).append(x.shape()[axis]);
  }
  flat[0] = lead.numel();
  py::tuple sizes(lead.rank());
  for (int axis = 0; axis < lead.rank(); ++axis) sizes[axis] = lead[axis];
  const py::module_ np = py::module_::import("numpy");
  py::object numbers = np.attr("arange")(lead.numel()).attr("reshape")(sizes);
  try {
    numbers = numbers.attr("__getitem__")(key.key);
  } catch (const py::error_already_set& e) {
    if (!e.matches(PyExc_IndexError)) throw;
    throw py::index_error("[index] " + py::str(e.value()).cast<std::string>());
  }
  const Tensor index = from_python(np.attr("ascontiguousarray")(numbers));
  const py::tuple shape = numbers.attr("shape");
  Shape found;
  for (const py::handle size : shape) found.append(size.cast<std::int64_t>());
  return gather_rows(reshape(x, flat), reshape_view(index, found));
}

Var index(const Var& self, const py::object& key) {
  const py::tuple given = py::isinstance<py::tuple>(key)
                              ? py::reinterpret_borrow<py::tuple>(key)
                              : py::make_tuple(key);
  // An IndexError would make list(x) of a 0-d tensor empty.
  EA_CHECK(
      self.rank() > 0 || std::none_of(given.begin(), given.end(), is_integer),
      "index", "a 0-d tensor has no axis to index; expected ..., None or ()");
  const py::tuple parts = spelled_out(given, self.rank());
  if (is_ranges(parts, self.shape())) return ranges(self, parts);
  return rows(self, plain(parts, self.rank()));
}

int refuse_assignment(PyObject*, PyObject*, PyObject*) {
  PyErr_SetString(PyExc_TypeError,
                  "[tensor] elements cannot be assigned or deleted; make a "
                  "tensor by ea.functional.where(mask, value, x), or overwrite "
                  "all of a leaf by x.copy_(values)");
  return -1;
}

}  // namespace

void bind_indexing(py::class_<Var>& tensor) {
  tensor.def("__getitem__", &index, py::arg("key"), kGetItem);
  // A slot without a __setitem__, which type checkers would allow.
  auto* const type = reinterpret_cast<PyHeapTypeObject*>(tensor.ptr());
  type->as_mapping.mp_ass_subscript = &refuse_assignment;
}

}  // namespace ea
