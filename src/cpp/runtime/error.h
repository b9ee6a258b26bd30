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

// Data that cannot be used as it is (ids out of range, too long, ...).
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

// Tensors lie on devices that do not go together.
class DeviceError : public InputError {
 public:
  using InputError::InputError;
};

// A device or library that was asked for is not there.
class BackendUnavailable : public Error {
 public:
  using Error::Error;
};

// No registered implementation takes these arguments.
class KernelNotFound : public Error {
 public:
  using Error::Error;
};

class OutOfMemory : public Error {
 public:
  using Error::Error;
};

}  // namespace ea
