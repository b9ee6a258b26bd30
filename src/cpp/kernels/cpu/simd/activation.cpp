// SIMD functions of one element and their derivatives (kernels/activation.h).
#include "kernels/cpu/simd/jobs-inl.h"
#include "kernels/cpu/simd/math-inl.h"
#include "kernels/cpu/simd/targets.h"

namespace ea::simd::EA_TARGET {
namespace {

// Each: value f(x) and derivative f'(x).
struct Gelu {
  static EA_INLINE Vf phi(Vf x) {  // Phi(x), the normal distribution
    return fma(set(0.5f), erf(x * set(0.70710678f)), set(0.5f));
  }
  static EA_INLINE Vf value(Vf x, Vf) { return x * phi(x); }
  // Phi(x) + x exp(-x^2/2) / sqrt(2 pi)
  static EA_INLINE Vf derivative(Vf x, Vf) {
    const Vf density = exp(x * x * set(-0.5f)) * set(0.39894228f);
    return fma(x, density, phi(x));
  }
};

struct GeluTanh {
  static EA_INLINE Vf inner(Vf x) {  // sqrt(2/pi) (x + 0.044715 x^3)
    return x * fma(x * x, set(0.035677408f), set(0.79788456f));
  }
  static EA_INLINE Vf value(Vf x, Vf) {
    const Vf half = set(0.5f) * x;
    return fma(half, tanh(inner(x)), half);
  }
  static EA_INLINE Vf derivative(Vf x, Vf) {
    const Vf t = tanh(inner(x));
    const Vf slope = fma(x * x, set(0.10703222f), set(0.79788456f));
    const Vf sech2 = fnma(t, t, set(1.0f));
    return set(0.5f) * fma(x * sech2, slope, set(1.0f) + t);
  }
};

struct Relu {
  static EA_INLINE Vf value(Vf x, Vf) { return max(set(0.0f), x); }
  static EA_INLINE Vf derivative(Vf x, Vf) {
    return x > set(0.0f) ? set(1.0f) : set(0.0f);
  }
};

struct LeakyRelu {
  static EA_INLINE Vf value(Vf x, Vf slope) {
    return x > set(0.0f) ? x : slope * x;
  }
  static EA_INLINE Vf derivative(Vf x, Vf slope) {
    return x > set(0.0f) ? set(1.0f) : slope;
  }
};

struct Tanh {
  static EA_INLINE Vf value(Vf x, Vf) { return tanh(x); }
  static EA_INLINE Vf derivative(Vf x, Vf) {
    const Vf t = tanh(x);
    return fnma(t, t, set(1.0f));
  }
};

struct Sigmoid {
  static EA_INLINE Vf value(Vf x, Vf) { return sigmoid(x); }
  static EA_INLINE Vf derivative(Vf x, Vf) {
    const Vf s = sigmoid(x);
    return fnma(s, s, s);
  }
};

struct Exp {
  static EA_INLINE Vf value(Vf x, Vf) { return exp(x); }
  static EA_INLINE Vf derivative(Vf x, Vf) { return exp(x); }
};

struct Log {
  static EA_INLINE Vf value(Vf x, Vf) { return log(x); }
  static EA_INLINE Vf derivative(Vf x, Vf) { return set(1.0f) / x; }
};

struct Sqrt {
  static EA_INLINE Vf value(Vf x, Vf) { return sqrt(x); }
  static EA_INLINE Vf derivative(Vf x, Vf) { return set(0.5f) / sqrt(x); }
};

template <typename F, typename T>
void run(const ActivationForward::Args& args) {
  const Vf slope = set(static_cast<float>(args.slope));
  const T* x = args.x.as<T>();
  T* y = args.y.as<T>();
  parallel_chunks(args.y.numel(), kGrain,
                  [&](std::int64_t begin, std::int64_t end) {
                    for_vectors(end - begin, [&](std::int64_t i, auto part) {
                      store(y + begin + i,
                            F::value(load(x + begin + i, part), slope), part);
                    });
                  });
}

template <typename F, typename T>
void run(const ActivationBackward::Args& args) {
  const Vf slope = set(static_cast<float>(args.slope));
  const T* dy = args.dy.as<T>();
  const T* x = args.x.as<T>();
  T* dx = args.dx.as<T>();
  parallel_chunks(
      args.dx.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
        for_vectors(end - begin, [&](std::int64_t i, auto part) {
          const Vf d = F::derivative(load(x + begin + i, part), slope);
          store(dx + begin + i, load(dy + begin + i, part) * d, part);
        });
      });
}

template <typename T, typename Args>
void dispatch(const Args& args) {
  switch (args.kind) {
    case Activation::gelu:
      return run<Gelu, T>(args);
    case Activation::gelu_tanh:
      return run<GeluTanh, T>(args);
    case Activation::relu:
      return run<Relu, T>(args);
    case Activation::leaky_relu:
      return run<LeakyRelu, T>(args);
    case Activation::tanh:
      return run<Tanh, T>(args);
    case Activation::sigmoid:
      return run<Sigmoid, T>(args);
    case Activation::exp:
      return run<Exp, T>(args);
    case Activation::log:
      return run<Log, T>(args);
    case Activation::sqrt:
      return run<Sqrt, T>(args);
  }
}

}  // namespace

void activation_forward(const ActivationForward::Args& args) {
  if (args.x.dtype == DType::bf16) return dispatch<bfloat16>(args);
  dispatch<float>(args);
}

void activation_backward(const ActivationBackward::Args& args) {
  if (args.x.dtype == DType::bf16) return dispatch<bfloat16>(args);
  dispatch<float>(args);
}

}  // namespace ea::simd::EA_TARGET
