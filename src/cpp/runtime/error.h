// The exception tree of the core; bindings/errors.cpp maps it to Python's.
#pragma once

#include <stdexcept>
#include <string>

namespace ea {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A setting is unknown, out of range, or contradicts another.
class ConfigError : public Error {
 public:
  using Error::Error;
};

// Input data is invalid (ids out of range, too long, ...).
class InputError : public Error {
 public:
  using Error::Error;
};

class ShapeError : public InputError {
 public:
  using InputError::InputError;
};

class DTypeError : public InputError {
 public:
  using InputError::InputError;
};

// Tensors are on different devices, or on one that the operation cannot use.
class DeviceError : public InputError {
 public:
  using InputError::InputError;
};

// A requested device or library is not available.
class BackendUnavailable : public Error {
 public:
  using Error::Error;
};

// No registered implementation supports these arguments.
class KernelNotFound : public Error {
 public:
  using Error::Error;
};

class OutOfMemory : public Error {
 public:
  using Error::Error;
};

}  // namespace ea
