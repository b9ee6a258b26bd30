// Reads the environment once, at first use.
#include "runtime/env.h"

#include <charconv>
#include <cstdlib>

#include "runtime/check.h"

namespace ea::env {

namespace {

std::string text(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

}  // namespace

const std::string& max_isa() {
  static const std::string value = [] {
    std::string v = text("EA_MAX_ISA");
    if (!v.empty() && v != "avx2" && v != "avx512") {
      fail<ConfigError>("env",
                        "EA_MAX_ISA={}: expected avx2 or avx512; unset it "
                        "to use the best this machine has",
                        v);
    }
    return v;
  }();
  return value;
}

const std::string& kernel_choice() {
  static const std::string value = text("EA_KERNEL");
  return value;
}

int num_threads() {
  static const int value = [] {
    const std::string v = text("EA_NUM_THREADS");
    if (v.empty()) return 0;
    int n = 0;
    const auto [end, error] = std::from_chars(v.data(), v.data() + v.size(), n);
    if (error != std::errc() || end != v.data() + v.size() || n < 1 ||
        n > 1024) {
      fail<ConfigError>("env",
                        "EA_NUM_THREADS={}: expected a whole number from 1 to "
                        "1024; unset it to use every processor",
                        v);
    }
    return n;
  }();
  return value;
}

const std::string& cuda_visible_devices() {
  static const std::string value = text("CUDA_VISIBLE_DEVICES");
  return value;
}

const std::string& cublas_lt() {
  static const std::string value = text("EA_CUBLASLT");
  return value;
}

const std::string& nccl() {
  static const std::string value = text("EA_NCCL");
  return value;
}

const std::string& disabled() {
  static const std::string value = text("EA_DISABLE");
  return value;
}

bool profile() {
  static const bool value = text("EA_PROFILE") == "1";
  return value;
}

}  // namespace ea::env
